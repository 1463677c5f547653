"""What every dashboard has around its panels: variables, marks of changes, ways on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.models import dashboard as models

from controlplane.slo.prometheus.links import Links
from dashboards.drawing import DATASOURCE, draw
from dashboards.panel import Panel, Row
from dashboards.query import series
from dataplane import names

TAG = "pilothouse"
COLUMNS = 24
_KNOWN_FOR = "1h"
"""What was seen within it is nothing new, even if scrapes were missed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One that is chosen above the dashboard."""

    name: str
    label: str
    query: str
    """In the form of Grafana's Prometheus data source: label_values(SERIES, LABEL)."""
    is_many: bool = False
    """Several may be chosen, and all are at first."""
    first: str | None = None
    """What is chosen at first, where it is there."""


DEPLOYMENT_SERIES = series(
    f'{{__name__=~"{names.GATEWAY_CONTRACT}|{names.GATEWAY_ENDED_TOTAL}'
    f'|{names.CONTROLPLANE_REPLICAS}"}}'
)
"""A deployment without requests has a contract, one without a contract has replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One dashboard, as data."""

    uid: str
    """At most 40 characters; links to it stay valid when its title changes."""
    title: str
    says: str
    rows: Sequence[Row]
    variables: Sequence[Variable] = ()
    is_of: str | None = None
    """The matcher of what it is about, for marks of changes; None: of everything."""
    console_path: str = "/"
    """Where the console shows the same."""


def build(plan: Plan, links: Links) -> models.Dashboard:
    """In Grafana's own types."""
    built = dashboard.Dashboard(plan.title).uid(plan.uid).description(plan.says).tags([TAG])
    built.readonly().timezone("browser").time("now-3h", "now").refresh("30s")
    built.tooltip(models.DashboardCursorSync.CROSSHAIR)
    built.with_variable(_datasource())
    for variable in plan.variables:
        built.with_variable(_variable(variable))
    for link in _links(plan, links):
        built.link(link)
    result = built.build()
    result.panels = list(_placed(plan.rows, links))
    result.annotations = models.AnnotationContainer(list_val=list(_changes(plan.is_of)))
    return result


def _placed(rows: Sequence[Row], links: Links) -> Iterator[models.Panel | models.RowPanel]:
    top, number = 0, 0
    for row in rows:
        number += 1
        heading = models.GridPos(x=0, y=top, w=COLUMNS, h=1)
        yield dashboard.Row(row.title).grid_pos(heading).id(number).build()
        places = list(_places(row, top + 1))
        for panel, place in places:
            number += 1
            drawn = draw(panel, place, links).build()
            drawn.id_val = number
            yield drawn
        top = max(place.y + place.h for _, place in places)


def _places(row: Row, top: int) -> Iterator[tuple[Panel, models.GridPos]]:
    left = 0
    for panel in row.panels:
        if left + panel.width > COLUMNS:
            left, top = 0, top + row.height
        yield panel, models.GridPos(x=left, y=top, w=panel.width, h=row.height)
        left += panel.width


def _datasource() -> dashboard.DatasourceVariable:
    return dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus")


def _variable(variable: Variable) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(variable.name).label(variable.label).datasource(DATASOURCE)
    made.query({"query": variable.query, "refId": f"variable-{variable.name}"})
    made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    made.sort(models.VariableSort.ALPHABETICAL_ASC)
    if variable.is_many:
        made.multi(True).include_all(True).all_value(".*")
        made.current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    elif variable.first is not None:
        first = variable.first
        made.current(models.VariableOption(selected=True, text=first, value=first))
    return made


def _links(plan: Plan, links: Links) -> Iterator[dashboard.DashboardLink]:
    others = dashboard.DashboardLink("Dashboards").type(models.DashboardLinkType.DASHBOARDS)
    yield others.tags([TAG]).as_dropdown(True).include_vars(True).keep_time(True)
    console = links.console_url.rstrip("/")
    for title, path in (
        ("Console", plan.console_path),
        ("Incidents", "/incidents"),
        ("Runbooks", "/runbooks"),
    ):
        link = dashboard.DashboardLink(title).type(models.DashboardLinkType.LINK)
        yield link.url(f"{console}{path}").target_blank(True)


class _Change(models.AnnotationQuery):
    """With the fields that Grafana's Prometheus data source adds, which its SDK leaves out."""

    def __init__(self, name: str, expr: str, says: str, colour: str) -> None:
        super().__init__(name=name, datasource=DATASOURCE, icon_color=colour, expr=expr)
        self._says = says

    def to_json(self) -> dict[str, object]:
        return {**super().to_json(), "titleFormat": self.name, "textFormat": self._says}


def _changes(is_of: str | None) -> Iterator[models.AnnotationQuery]:
    """Marks at which something was changed: most trouble begins with one."""
    own = () if is_of is None else (is_of,)
    contract = series(names.GATEWAY_CONTRACT, *own)
    replica = series(f"{names.REPLICA_INFO}_info", *own)
    deployment, revision = names.LABEL_DEPLOYMENT, names.LABEL_CONTRACT_REVISION
    yield _Change(
        "Contract in force",
        _new(contract, (deployment, revision)),
        f"{{{{{deployment}}}}} is judged by {{{{{revision}}}}}",
        "orange",
    )
    yield _Change(
        "Replica started",
        _new(replica, (deployment, "replica_id", "model_revision", "engine_config_revision")),
        f"{{{{replica_id}}}} of {{{{{deployment}}}}}: {{{{model_revision}}}}, "
        "{{engine_config_revision}}",
        "blue",
    )
    yield _Change(
        "Snapshot enforced",
        f"max(changes({names.GATEWAY_SNAPSHOT_VERSION}[1m])) > 0",
        "A change of deployments, replicas, policies, contracts or limits reached the gateways",
        "purple",
    )


def _new(name: str, by: tuple[str, ...]) -> str:
    labels = ", ".join(by)
    before = f"last_over_time({name}[{_KNOWN_FOR}] offset 1m)"
    return f"count by ({labels}) ({name}) unless count by ({labels}) ({before})"
