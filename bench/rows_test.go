package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPercentile(t *testing.T) {
	for name, test := range map[string]struct {
		values []float64
		p      float64
		want   float64
	}{
		"none":          {nil, 50, 0},
		"one":           {[]float64{7}, 99, 7},
		"odd":           {[]float64{9, 1, 5}, 50, 5},
		"even":          {[]float64{4, 1, 3, 2}, 50, 2},
		"p0":            {[]float64{2, 1}, 0, 1},
		"p99 of a few":  {[]float64{3, 1, 2}, 99, 3},
		"p99 of many":   {append(make([]float64, 198), 5, 9), 99, 0},
		"p99.5 of many": {append(make([]float64, 198), 5, 9), 99.5, 5},
	} {
		values := append([]float64(nil), test.values...)
		require.InDelta(t, test.want, percentile(test.values, test.p), 0, name)
		require.Equal(t, values, test.values, "%s: the order of the caller's values", name)
	}
}

// measured returns a row with this library's, the peer's and the floor's times; 0 omits a
// time.
func measured(subject, work string, ours, peer, floor float64) Row {
	r := Row{Subject: subject, Work: work, Ours: Figures{Time: ours, CPU: ours}}
	if peer > 0 {
		r.Peer = &Figures{Time: peer, CPU: peer}
	}
	if floor > 0 {
		r.Floor = &Figures{Time: floor, CPU: floor}
	}
	return r
}

// TestSummarize: ratios are computed for each run, so that a slow run does not change them.
func TestSummarize(t *testing.T) {
	lines := summarize([]Row{
		measured("s", "w", 10, 100, 5), measured("s", "w", 40, 800, 40), measured("s", "w", 20, 300, 5),
	})
	require.Len(t, lines, 1)
	require.InDelta(t, 20, lines[0].Ours.Time, 0)
	require.InDelta(t, 300, lines[0].Peer.Time, 0)
	require.Equal(t, span{mid: 15, min: 10, max: 20}, lines[0].peer.time)
	require.Equal(t, span{mid: 2, min: 1, max: 4}, lines[0].floor.time)
}

// TestSummarizeKeepsFailures checks that the summary of several runs has the worst share of
// failures.
func TestSummarizeKeepsFailures(t *testing.T) {
	bad := measured("s", "w", 1, 1, 1)
	bad.Ours.Failed = 0.5
	good := measured("s", "w", 1, 1, 1)
	lines := summarize([]Row{good, bad, good})
	require.InDelta(t, 0.5, lines[0].Ours.Failed, 0)
	require.Contains(t, lines[0].remarks(), "50 % failed")
}

func TestWorstFirst(t *testing.T) {
	cpu := measured("s", "the peer takes less processor time", 1, 9, 1)
	cpu.Peer.CPU = 0.4
	rows := []Row{
		measured("s", "near the floor", 1, 9, 1),
		measured("s", "the peer is a little faster", 10, 9, 9),
		measured("s", "far from the floor", 100, 1000, 1),
		measured("s", "the peer is much faster", 10, 1, 9),
		cpu,
		measured("s", "no peer, farthest from the floor", 1000, 0, 1),
	}
	var names []string
	for _, l := range summarize(rows) {
		names = append(names, l.Work)
	}
	require.Equal(t, []string{
		"the peer is much faster", "the peer takes less processor time", "the peer is a little faster",
		"no peer, farthest from the floor", "far from the floor", "near the floor",
	}, names)
}

// TestBusyRowsAreApart: idle and busy figures of the same work are not merged.
func TestBusyRowsAreApart(t *testing.T) {
	busy := measured("s", "w", 9, 9, 9)
	busy.Busy = true
	idle, busyLines := split(summarize([]Row{measured("s", "w", 1, 2, 1), busy}))
	require.Len(t, idle, 1)
	require.InDelta(t, 1, idle[0].Ours.Time, 0)
	require.InDelta(t, 9, busyLines["sw"].Ours.Time, 0)

	alone, none := split(summarize([]Row{busy}))
	require.Len(t, alone, 1)
	require.Empty(t, none)
}

func TestRowsRoundTrip(t *testing.T) {
	rows := []Row{measured("s", "w", 1, 2, 3), measured("s", "without", 1, 0, 0)}
	rows[0].Size, rows[0].Busy, rows[0].Peer.Refused = 10, true, "no such thing"
	var file bytes.Buffer
	require.NoError(t, writeRows(&file, rows))
	again, err := readRows(&file)
	require.NoError(t, err)
	require.Equal(t, rows, again)
	_, err = readRows(bytes.NewBufferString(`{"Subject":`))
	require.Error(t, err)
}
