"""Documents against their kinds: the place, what is wrong, and what to write instead."""

import pytest

from tests.controlplane.config_documents import (
    DESIGN_CONTRACT,
    DESIGN_POLICY,
    MODEL,
    load,
    messages,
)


def test_the_examples_of_the_design_load_as_they_are_written() -> None:
    result = load(DESIGN_CONTRACT, DESIGN_POLICY)

    assert result.problems == ()
    assert [(d.kind, d.name) for d in result.documents] == [
        ("SLOContract", "chat"),
        ("AdmissionPolicy", "chat"),
    ]


def test_the_api_version_may_be_left_out_but_not_be_another() -> None:
    assert messages("apiVersion: pilothouse/v1\n" + MODEL) == []
    assert messages("apiVersion: v2\n" + MODEL) == [
        "f0.yaml:1:13: apiVersion: must be pilothouse/v1, the only version there is, not 'v2'"
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("{}", "2:7: spec.artifact: is required"),
        (
            "{artefact: {path: /x}}",
            "spec.artefact: there is no such key here; did you mean artifact?",
        ),
        ("{artifact: {path: /x}, max_model_len: '8'}", "must be a whole number, not '8'"),
        (
            "{artifact: {path: /x}, max_model_len: 0}",
            "should be greater than or equal to 2; it is 0",
        ),
        ("{artifact: {path: /x}, max_model_len: 1.5}", "must be a whole number, not 1.5"),
        ("{artifact: {path: /x}, max_model_len: true}", "must be a whole number, not true"),
        ("{artifact: /x}", "spec.artifact: must be a mapping, not '/x'"),
        ("{artifact: {path: x}}", "path must be absolute"),
        (
            "{artifact: {path: /x, url: 'http://y'}}",
            "exactly one of package (with file), path or url",
        ),
        ("{artifact: {}}", "exactly one of package (with file), path or url; found none"),
        ("{artifact: {package: p}}", "package and file belong together"),
        ("{artifact: {package: p, file: ../x}}", "file is a path inside the package"),
        ("{artifact: {package: 'p;q', file: x}}", "is no import name"),
        ("{artifact: {url: 'ftp://y'}}", "is no http:// or https:// address"),
        ("[]", "spec: must be a mapping, not a list; it takes artifact, tokenizer, max_model_len"),
        ("", "spec: is required; it takes artifact, tokenizer, max_model_len"),
    ],
)
def test_a_wrong_spec_says_what_is_expected(spec: str, expected: str) -> None:
    found = messages(f"{{kind: Model, metadata: {{name: m}},\nspec: {spec}}}")

    assert any(expected in message for message in found), found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "just text",
            "a document is a mapping with apiVersion, kind, metadata, spec; this is 'just text'",
        ),
        (
            "- a",
            "1:1: a document is a mapping with apiVersion, kind, metadata, spec; this is a list",
        ),
        ("42", "this is 42"),
        (
            "kind: Modell\nmetadata: {name: m}\nspec: {}",
            "1:7: kind: there is no kind 'Modell'; did you mean Model?",
        ),
        ("metadata: {name: m}\nspec: {}", "1:1: kind: is required; kinds: Model, EngineConfig"),
        ("kind: 5\nmetadata: {name: m}\nspec: {}", "1:7: kind: must be text, not 5"),
        (
            "kind: Model\nspec: {artifact: {path: /x}}",
            "metadata: is required: write metadata: {name: ...}",
        ),
        (
            "kind: Model\nmetadata: {}\nspec: {artifact: {path: /x}}",
            "2:11: metadata.name: is required",
        ),
        (
            "kind: Model\nmetadata: {name: M_1}\nspec: {artifact: {path: /x}}",
            "2:18: metadata.name: 'M_1' is not a name",
        ),
        (
            "kind: Model\nmetadata: {name: 5}\nspec: {artifact: {path: /x}}",
            "2:18: metadata.name: must be text, not 5",
        ),
        (
            "kind: Model\nmetadata: {name: m, labels: {}}\nspec: {artifact: {path: /x}}",
            "2:21: metadata.labels: there is no such key here",
        ),
        (
            MODEL + "status: {}\n",
            "5:1: status: there is no such key here. Valid: apiVersion, kind, metadata, spec",
        ),
        ("kind: [Model]\nmetadata: [name]\nspec: 1", "kind: must be text, not a list"),
    ],
)
def test_a_document_of_the_wrong_shape_says_which_shape_is_right(text: str, expected: str) -> None:
    assert any(expected in message for message in messages(text)), messages(text)


def test_all_problems_come_at_once_and_in_order() -> None:
    policy = """\
kind: AdmissionPolicy
metadata: {name: chat}
spec:
  classes:
    - {name: Big One, priority: high, dedline: 10s}
    - {name: b, deadline: 10, aging: 1, max_queue: -1}
  limits: {kv: {watermark: 0.05, reserve: some}}
  overload: {degrade: {when: queue_ag > 1s, max_tokens: 0}}
"""

    found = [message.partition("yaml:")[2] for message in messages(policy, MODEL + "x: 1\n")]

    assert [m.split(": ")[1] for m in found] == [
        "spec.classes[0].name",
        "spec.classes[0].priority",
        "spec.classes[0].dedline",
        "spec.classes[1].deadline",
        "spec.classes[1].aging",
        "spec.classes[1].max_queue",
        "spec.limits.kv.watermark",
        "spec.limits.kv.reserve",
        "spec.overload.degrade.when",
        "spec.overload.degrade.max_tokens",
        "x",
    ]
    assert found[2].startswith("5:39: ")


def test_an_expression_is_located_inside_the_file() -> None:
    text = DESIGN_POLICY.replace("tenant.tier ==", "tenant.teir ==")
    line = text.splitlines()[4]

    [message] = messages(text)

    assert message.startswith(f"f0.yaml:5:{line.index('.teir') + 1}: spec.classes[0].match: ")
    assert "did you mean tenant.tier?" in message


def test_an_expression_over_several_lines_is_located_by_its_own_lines() -> None:
    text = """\
kind: AdmissionPolicy
metadata: {name: chat}
spec:
  classes:
    - name: a
      match: |
        request.stream &&
        tenant.tier == 5
"""

    [message] = messages(text)

    assert message.startswith("f0.yaml:6:14: spec.classes[0].match: ")
    assert message.endswith("(line 2, column 13 of the text)")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "server",
            "sever",
            "spec.boundary: 'sever' is none of the valid ones; did you mean server?",
        ),
        ("30d", "30", "spec.window: 30 is not a duration"),
        ("for: 99%", "for: 100%", "leaves no error budget"),
        ("for: 99%", "for: 0.99", "0.99 is not a percentage"),
        ("at_most: 300ms, ", "", "ttft needs at_most"),
        (
            "{signal: availability, ",
            "{signal: availability, at_most: 1s, ",
            "availability has no at_most",
        ),
        (
            "{signal: availability, ",
            "{signal: acceptance, at_most: 1s, ",
            "acceptance has no at_most",
        ),
        ("signal: tpot", "signal: ttft", "more than one objective on ttft"),
        ("of: [ttft, tpot]", "of: [ttft]", "needs at least 2 of them, has 1"),
        ("of: [ttft, tpot]", "of: [ttft, e2e]", "together names e2e, which has no objective"),
        ("    interactive:", "    Inter Active:", "f0.yaml:7:5: spec.classes.Inter Active: "),
        ("signal: tpot", "signal: tpott", "did you mean tpot? Valid: ttft, first_answer, tpot"),
    ],
)
def test_a_wrong_contract_says_what_is_expected(old: str, new: str, expected: str) -> None:
    [message] = messages(DESIGN_CONTRACT.replace(old, new))

    assert expected in message


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "shed: [batch]",
            "shed: [bulk]",
            "overload.shed names bulk, which is no class of this policy",
        ),
        ("name: batch", "name: interactive", "class named twice: interactive"),
        ("queue_age > 1s", "queue_age = 1s", "is not a condition; write it as queue_age > 1s"),
        ("queue_age > 1s", "queue_age > 1", "is not a duration"),
        ("aging: 1/s", "aging: 1", "is not a rate"),
        ("watermark: 5%", "watermark: 5", "is not a percentage"),
        ("quantile: 0.9", "quantile: 1.5", "should be less than 1"),
        (
            "tokens_per_minute: 200000",
            "tokens_per_minute: lots",
            "must be a whole number, not 'lots'",
        ),
        ("tokens_per_minute", "token_per_minute", "did you mean tokens_per_minute?"),
    ],
)
def test_a_wrong_policy_says_what_is_expected(old: str, new: str, expected: str) -> None:
    assert any(expected in message for message in messages(DESIGN_POLICY.replace(old, new)))


def test_an_unreadable_value_is_complained_about_once() -> None:
    assert messages("kind: Model\nmetadata: {name: m}\nspec: {artifact: {path: *x}}") == [
        "f0.yaml:3:25: spec.artifact.path: anchors and aliases are not supported: write it out"
    ]


def test_the_same_document_twice_names_the_first() -> None:
    assert messages(MODEL, "# again\n" + MODEL) == [
        "f1.yaml:3:18: metadata.name: Model smollm2 is already defined in f0.yaml:1; remove one"
    ]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("overload: {degrade: {when: queue_age > 1s}}", "changes nothing: give max_tokens, or a"),
        ("overload: {shed: [a, a]}", "overload.shed names a twice"),
        ("overload: {shed: [b]}", "overload.shed names b, which is no class of this policy"),
        ("limits: {queue: {bytes: 12}}", "12 is no size; write a number and a unit"),
        ("limits: {queue: {request: 1}}", "there is no such key here; did you mean requests?"),
        ("tenants: {default: {max_concurrent: 0}}", "should be greater than or equal to 1"),
        ("routing: {affinity_header: 'x session'}", "'x session' is no name of a header"),
        ("slow_clients: {buffer: 1KiB}", "4096"),
        ("routing: {policy: two-choices}", "'two-choices' is no name of a routing policy"),
        (
            "routing: {policy: prefix, settings: {prefill_rate: 9000}}",
            "routing policy prefix has no setting 'prefill_rate'",
        ),
        (
            "routing: {settings: {ejection: {eject_second: 5}}}",
            "routing setting ejection has no setting 'eject_second'; did you mean eject_seconds",
        ),
    ],
)
def test_limits_that_make_no_sense_are_told_with_what_would(policy: str, expected: str) -> None:
    header = "kind: AdmissionPolicy\nmetadata: {name: p}\nspec:\n  classes: [{name: a}]\n"

    [message] = messages(f"{header}  {policy}\n")

    assert expected in message
