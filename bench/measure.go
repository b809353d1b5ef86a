package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"
)

// A duel is one piece of work, done by both sides.
type duel struct {
	name       string
	ours, peer func() error
	times      int // of our work in one measurement, which is short for a clock
}

// measureAll prints a table in Markdown.
func measureAll(ctx context.Context, rounds int, counts []int) error {
	dir, err := os.MkdirTemp("", "volumekit-bench")
	if err != nil {
		return err
	}
	fmt.Println("| work | mounts | ours, µs | peer, µs | ratio |")
	fmt.Println("|---|--:|--:|--:|--:|")
	for _, crowded := range []bool{false, true} {
		field, err := newField(ctx, dir, crowded)
		if err != nil {
			return err
		}
		if err := field.measure(rounds, counts); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir) // the mounts have been taken down
}

// measure prints the lines of the field's duels.
func (f *field) measure(rounds int, counts []int) error {
	duels := f.duels()
	lines := make([][]string, len(duels))
	for _, n := range counts {
		if err := f.grow(n); err != nil {
			return err
		}
		for i, d := range duels {
			ours, peer, err := d.fight(f.ctx, rounds)
			if err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			lines[i] = append(lines[i], fmt.Sprintf("| %s | %d | %.1f | %.0f | %.0f× |", d.name, n, ours, peer, peer/ours))
		}
	}
	for _, line := range slices.Concat(lines...) {
		fmt.Println(line)
	}
	return f.close()
}

// fight lets both sides work in turns and returns their medians in microseconds.
func (d duel) fight(ctx context.Context, rounds int) (ours, peer float64, err error) {
	var a, b []float64
	for range rounds {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		t, err := clock(d.ours, d.times)
		if err != nil {
			return 0, 0, fmt.Errorf("ours: %w", err)
		}
		a = append(a, t)
		if t, err = clock(d.peer, 1); err != nil {
			return 0, 0, fmt.Errorf("peer: %w", err)
		}
		b = append(b, t)
	}
	return median(a), median(b), nil
}

func clock(work func() error, times int) (float64, error) {
	begin := time.Now()
	for range times {
		if err := work(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / 1000 / float64(times), nil
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
