"""A profile as Perfetto reads it, by the definitions that it publishes."""

import collections
import os
import subprocess
import sys

import pytest

pytest.importorskip("perfetto", reason="Perfetto's definitions are a package of their own")

PROGRAM = """
import frit
from frit import Tensor

@frit.TinyJit
def step(x, w):
    return (x @ w).relu().sum().realize()

with frit.span("three steps"):
    for _ in range(3):
        step(Tensor.ones(64, 64).contiguous().realize(), Tensor.ones(64, 64).contiguous().realize()).item()
"""


def unknown(message):
    """How many fields of a message, or of one inside it, Perfetto does not define."""
    from google.protobuf.unknown_fields import UnknownFieldSet

    count = len(UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.message_type is not None:
            is_one = hasattr(value, "ListFields")
            count += sum(unknown(m) for m in ([value] if is_one else value))
    return count


def test_a_profile_is_what_perfetto_defines(tmp_path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto

    path = tmp_path / "a.pftrace"
    env = {**os.environ, "FRIT_PROFILE": str(path)}
    subprocess.run([sys.executable, "-c", PROGRAM], env=env, check=True)
    trace = perfetto.Trace()
    trace.ParseFromString(path.read_bytes())
    assert unknown(trace) == 0

    kinds = perfetto.TrackEvent.Type
    tracks, events, flows = {}, [], collections.defaultdict(set)
    for number, packet in enumerate(trace.packet):
        assert packet.trusted_packet_sequence_id
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            assert not track.parent_uuid or track.parent_uuid in tracks
            tracks[track.uuid] = track
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in tracks, "a track is described before it is used"
            events.append((packet.timestamp, number, event))
            for id in event.flow_ids:
                flows[id].add("begins")
            for id in event.terminating_flow_ids:
                flows[id].add("ends")
    # each event's end is the packet after its beginning, so what is sorted by time must close the same
    open_, names = collections.defaultdict(list), collections.Counter()
    for _, number, event in sorted(events, key=lambda e: e[:2]):
        if event.type == kinds.TYPE_SLICE_BEGIN:
            open_[event.track_uuid].append(number)
            names[event.name] += 1
        elif event.type == kinds.TYPE_SLICE_END:
            assert open_[event.track_uuid].pop() == number - 1, "slices of a track nest"
    assert not any(open_.values())
    assert flows and all(both == {"begins", "ends"} for both in flows.values())
    counters = [t for t in tracks.values() if t.HasField("counter")]
    assert counters and any(e.type == kinds.TYPE_COUNTER for _, _, e in events)
    assert names["three steps"] == 1 and names["launch"] == len(flows) and names["lower"] > 0
