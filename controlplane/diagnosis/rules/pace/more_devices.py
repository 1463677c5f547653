"""More devices for one model, or the same over another link, and no faster."""

import itertools
import re

from controlplane.diagnosis.views.argument import Argument
from controlplane.diagnosis.views.modes import between_modes, keys_of, slowdowns_between
from controlplane.diagnosis.views.slowdown import is_of_time, slowdowns
from controlplane.diagnosis.views.told import number_of, plain, told_all
from controlplane.diagnosis.window import Window
from controlplane.diagnosis.words.devices import NOT_NUM_DEVICES, NUM_DEVICES

_ONE = (
    r"\b(tp ?1|1 ?gpus?|one gpu|single( gpu)?|1 card|one card|pp|pipeline|replicas|dp|nvlink|nvl"
    r"|before|baseline|without|same switch|one node|1 node|local(host)?|loopback|one machine"
    r"|intra)\b"
)
_SEVERAL = (
    r"\b(tp ?\d*|[2-9] ?gpus?|1[0-9] ?gpus?|two gpus?|four gpus?|eight gpus?|[2-9] cards|tensor"
    r"|tensor parallel|pcie|pci|ethernet|tcp|sockets?|after|now|with|two nodes|[2-9] nodes"
    r"|two cards"
    r"|cross node|remote|rpc|over|on|lan|wan|wifi|gigabit|gbit|\d+|network|inter)\b"
)
_DEVICES = (
    r"\b(tp ?\d*|tensor|gpus?|cards|nodes?|nvlink|pcie|socket|tcp|ethernet|rpc|remote|network|gbit"
    r"|lan|wan|gigabit)\b"
)
_NUMBER = r"\btp ?(\d+)\b|\b(\d+) ?(?:gpus?|cards?|nodes?|devices?)\b"
_NOT_A_STEP = r"ttft|busy|idle|\bload|start|transfer|\bkv\b|prefill"
_LINK_WORDS = r"\b(nvlink|pcie|socket|tcp|ethernet|rpc|remote|network|gbit|lan|wan|gigabit)\b"
_LINK_COSTS = 1.15
"""The same devices over another link: what it takes longer is the link's."""
_FEWER_TALK = (
    r"layer( split)?|pipeline|\bpp|single|one (gpu|card|node)|replicas|\bdp|nvlink|data parallel"
    r"|infiniband|rdma|p2p (on|enabled)"
)
_MORE_TALK = (
    r"tensor( parallel)?|\btp|row split|split mode row|two (gpus|cards|nodes)|pcie|ethernet|tcp"
    r"|socket|expert parallel|\bep|across nodes|cross node|rpc"
)
_NOT_FASTER = 0.95
"""Two devices that take as long as one: what they gain is spent on talking."""


def is_not_faster(argument: Argument, window: Window) -> bool:
    """By two numbers of devices, by a setting told at two times, or by words of a key."""
    if _by_number(argument, window) or _by_setting(argument, window):
        return True
    told_twice, modes = between_modes(window, _FEWER_TALK, _MORE_TALK)
    if told_twice and told_twice[0].factor >= _LINK_COSTS:
        argument.says(f"{keys_of(modes)}: {told_twice[0].says}")
        return True
    for slow in slowdowns(window, base=_ONE, other=_SEVERAL):
        about = slow.contrast.circumstance or slow.contrast.keys
        bound = _LINK_COSTS if re.search(_LINK_WORDS, about) else _NOT_FASTER
        if re.search(_NOT_A_STEP, slow.contrast.keys) or not re.search(_DEVICES, about):
            continue
        if slow.factor >= bound:
            argument.says(slow.says)
            return True
    return False


def _by_number(argument: Argument, window: Window) -> bool:
    """The same figure for two numbers of devices, and the larger is no faster."""
    told_speeds = [
        (float(found[1] or found[2]), fact, value)
        for fact in window.facts
        if (found := re.search(_NUMBER, plain(fact.key))) is not None
        if (value := number_of(fact)) is not None and value > 0
        if is_of_time(fact) is not None and not re.search(_NOT_A_STEP, plain(fact.key))
    ]
    for fewer, one, first in told_speeds:
        for more, two, second in told_speeds:
            if more <= fewer or one.unit is not two.unit or is_of_time(one) is not is_of_time(two):
                continue
            if re.sub(_NUMBER, "", plain(one.key)) != re.sub(_NUMBER, "", plain(two.key)):
                continue
            gain = first / second if is_of_time(one) else second / first
            if gain <= 1 / _NOT_FASTER:
                argument.fact(one)
                argument.fact(two, f"{gain:.2g} times as fast on {more:g} as on {fewer:g}")
                return True
    return False


def _by_setting(argument: Argument, window: Window) -> bool:
    """The number of devices was told at two times, and a speed beside each."""
    sizes = [
        (fact, value)
        for fact in told_all(window, NUM_DEVICES, without=NOT_NUM_DEVICES)
        if (value := number_of(fact)) is not None
    ]
    for one, two in itertools.permutations(sizes, 2):
        if one[0].key != two[0].key or one[1] >= two[1]:
            continue
        for slow in slowdowns_between(window, one[0].at, two[0].at, _NOT_A_STEP):
            if slow.factor >= _NOT_FASTER:
                argument.says(f"{one[0].key} {one[0].raw} -> {two[0].raw}: {slow.says}")
                return True
    return False
