"""A panel in the words of Grafana's SDK."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard, prometheus, stat, table, text, timeseries
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models
from grafana_foundation_sdk.models import text as text_models

from controlplane.slo.prometheus.links import Links
from dashboards.panel import Kind, Panel
from dashboards.query import Query

DATASOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
"""Chosen above the dashboard, so that its file suits every Grafana."""
_REF_IDS = "ABCDEFGHIJKLMNOP"
_PROMISE_COLOUR = "red"
_Drawn: TypeAlias = timeseries.Panel | stat.Panel | table.Panel | text.Panel


def draw(panel: Panel, place: models.GridPos, links: Links) -> Builder[models.Panel]:
    """The panel at its place, with the way to its runbook."""
    drawn = _DRAW[panel.kind](panel)
    drawn.title(panel.title).description(panel.says).grid_pos(place)
    if panel.runbook is not None:
        url = links.runbook(panel.runbook)
        link = dashboard.DashboardLink(f"Runbook: {panel.runbook}")
        drawn.links([link.type(models.DashboardLinkType.LINK).url(url).target_blank(True)])
    return drawn


def _graph(panel: Panel) -> _Drawn:
    drawn = timeseries.Panel().unit(panel.unit.value).datasource(DATASOURCE)
    drawn.targets([_target(panel, at) for at in range(len(panel.queries))])
    drawn.line_width(1.5).fill_opacity(8).show_points(common.VisibilityMode.AUTO)
    drawn.legend(_legend()).tooltip(_tooltip())
    if not panel.is_signed:
        drawn.min(0)
    if panel.is_share_of_one:
        drawn.max(1)
    if panel.is_stacked:
        stacking = common_builders.StackingConfig().mode(common.StackingMode.NORMAL)
        drawn.stacking(stacking).fill_opacity(30)
    if panel.bounds:
        dashed = common_builders.GraphThresholdsStyleConfig()
        drawn.thresholds_style(dashed.mode(common.GraphThresholdsStyleMode.DASHED))
        drawn.thresholds(_thresholds(panel))
    for at, query in enumerate(panel.queries):
        if query.is_promise:
            drawn.override_by_query(_REF_IDS[at], _as_promise())
    return drawn


def _figure(panel: Panel) -> _Drawn:
    drawn = stat.Panel().unit(panel.unit.value).datasource(DATASOURCE)
    drawn.targets([_target(panel, at) for at in range(len(panel.queries))])
    drawn.graph_mode(common.BigValueGraphMode.AREA).color_mode(common.BigValueColorMode.VALUE)
    drawn.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    if panel.bounds:
        drawn.thresholds(_thresholds(panel))
    return drawn


def _table(panel: Panel) -> _Drawn:
    drawn = table.Panel().unit(panel.unit.value).datasource(DATASOURCE)
    drawn.targets([_target(panel, at) for at in range(len(panel.queries))])
    hidden = {"Time": True, "__name__": True, "instance": True, "job": True}
    organize: Mapping[str, object] = {"excludeByName": hidden}
    return drawn.transformations([models.DataTransformerConfig("organize", options=organize)])


def _note(panel: Panel) -> _Drawn:
    return text.Panel().mode(text_models.TextMode.MARKDOWN).content(panel.text)


_DRAW: Mapping[Kind, Callable[[Panel], _Drawn]] = {
    Kind.GRAPH: _graph,
    Kind.FIGURE: _figure,
    Kind.TABLE: _table,
    Kind.NOTE: _note,
}


def _target(panel: Panel, at: int) -> prometheus.Dataquery:
    query: Query = panel.queries[at]
    target = prometheus.Dataquery().expr(query.expr).ref_id(_REF_IDS[at]).datasource(DATASOURCE)
    target.legend_format(query.legend).exemplar(query.has_exemplars)
    if panel.kind is Kind.TABLE:
        return target.instant().format(prometheus_models.PromQueryFormat.TABLE)
    return target.range().format(prometheus_models.PromQueryFormat.TIME_SERIES)


def _legend() -> common_builders.VizLegendOptions:
    legend = common_builders.VizLegendOptions().show_legend(True)
    return legend.display_mode(common.LegendDisplayMode.LIST).placement(
        common.LegendPlacement.BOTTOM
    )


def _tooltip() -> common_builders.VizTooltipOptions:
    every = common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
    return every.sort(common.SortOrder.DESCENDING)


def _thresholds(panel: Panel) -> dashboard.ThresholdsConfig:
    # The first step has no value: it is the colour below all bounds.
    steps = [models.Threshold(value=None, color="green")]
    steps += [models.Threshold(value=each, color=_PROMISE_COLOUR) for each in panel.bounds]
    return dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)


def _as_promise() -> list[models.DynamicConfigValue]:
    fixed = {"mode": "fixed", "fixedColor": _PROMISE_COLOUR}
    return [
        models.DynamicConfigValue(id_val="color", value=fixed),
        models.DynamicConfigValue(
            id_val="custom.lineStyle", value={"fill": "dash", "dash": [10, 6]}
        ),
        models.DynamicConfigValue(id_val="custom.fillOpacity", value=0),
    ]
