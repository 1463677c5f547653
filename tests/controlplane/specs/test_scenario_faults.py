import inspect
import typing
from collections.abc import Mapping

import pytest
from pydantic import TypeAdapter

from controlplane.specs import faults
from controlplane.specs.attribute_docs import docs_of_attributes
from controlplane.specs.field_docs import find_field
from controlplane.specs.scenario_faults import FaultSpec, compile_faults
from dataplane.simulation.faults.fault import Fault
from dataplane.simulation.faults.process import HungReplica, StalledReplica

ADAPTER: TypeAdapter[typing.Any] = TypeAdapter(FaultSpec)
MEMBERS = typing.get_args(typing.get_args(FaultSpec)[0])


def compiled(*written: Mapping[str, object], seed: int = 1) -> tuple[Fault, ...]:
    return compile_faults([ADAPTER.validate_python(each) for each in written], seed)


def word_of(member: type) -> str:
    [word] = typing.get_args(typing.get_type_hints(member)["fault"])
    assert isinstance(word, str)
    return word


@pytest.mark.parametrize("member", MEMBERS)
def test_a_fault_needs_its_name_alone_and_then_does_something(member: type) -> None:
    [fault] = compiled({"fault": word_of(member)})
    assert not fault.is_none
    assert fault.is_active(0)
    assert fault.is_active(1e6)


@pytest.mark.parametrize("member", MEMBERS)
def test_intensity_0_of_every_fault_is_none(member: type) -> None:
    [fault] = compiled({"fault": word_of(member), "intensity": 0.0})
    assert fault.is_none


def test_times_are_seconds_and_for_is_how_long() -> None:
    [fault] = compiled({"fault": "stalled_replica", "at": "2m", "for": "500ms", "replica": "r-1"})
    assert isinstance(fault, StalledReplica)
    assert (fault.at, fault.ends_at, fault.replica) == (120, 120.5, "r-1")


def test_seeds_follow_from_the_scenario_s_and_faults_of_other_kinds_change_none() -> None:
    hung, stalled = {"fault": "hung_replica"}, {"fault": "stalled_replica"}
    alone = compiled(hung)[0].seed
    assert compiled(stalled, hung)[1].seed == alone
    assert compiled(hung, hung)[1].seed != alone
    assert compiled(hung, seed=2)[0].seed != alone
    assert compiled({**hung, "seed": 7})[0].seed == 7


def test_every_kind_of_fault_that_can_be_written_is_one_of_the_simulation() -> None:
    kinds = [type(compiled({"fault": word_of(member)})[0]) for member in MEMBERS]
    assert len(set(kinds)) == len(MEMBERS) == 21
    assert HungReplica in kinds


def test_every_fault_and_every_field_says_what_it_is() -> None:
    family = {each for member in MEMBERS for each in member.__mro__}
    models = [each for each in family if each.__module__.startswith(f"{faults.__name__}.")]
    assert len(models) > len(MEMBERS)
    for model in models:
        assert vars(model)["__doc__"], model.__name__
        undocumented = inspect.get_annotations(model).keys() - docs_of_attributes(model)
        assert undocumented <= {"fault", "makes"}, model.__name__


def test_explain_lists_every_fault_with_what_it_is() -> None:
    choices = dict(find_field("Scenario", "faults").choices)
    assert choices.keys() == {word_of(member) for member in MEMBERS}
    assert choices["hung_replica"].startswith("No step ends")
