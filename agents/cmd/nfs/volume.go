package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

// A podVolume is the volume of a pod.
type podVolume struct {
	volume.Mounter
	node *node
	pod  string
	down volume.Unmounter
}

// setUp sets the volume up. The caller tears it down even after an error.
func (v *podVolume) setUp(ctx context.Context) error {
	v.node.volumes = append(v.node.volumes, v)
	if err := v.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return fmt.Errorf("set up the volume of %s: %w", v.pod, err)
	}
	return nil
}

// tearDown takes the volume down by the disk and the mount table alone, and removes the
// directories of the pod. It retries after a timeout, as a node agent does: each attempt
// continues the one before.
func (v *podVolume) tearDown(ctx context.Context, limit time.Duration) error {
	const most = 5
	err := v.tryTearDown(ctx, limit)
	for tries := 1; tries < most && errors.Is(err, context.DeadlineExceeded); tries++ {
		err = v.tryTearDown(ctx, limit)
	}
	if err == nil {
		err = util.RemoveEmptyParents(ctx, v.node.root, v.GetPath())
	}
	if err != nil {
		return fmt.Errorf("take down the volume of %s: %w", v.pod, err)
	}
	v.node.volumes = slices.DeleteFunc(v.node.volumes, func(up *podVolume) bool { return up == v })
	return nil
}

func (v *podVolume) tryTearDown(ctx context.Context, limit time.Duration) error {
	begin := time.Now()
	err := within(ctx, limit, v.down.TearDown)
	said := "done"
	if err != nil {
		said = cli.OneLine(err.Error())
	}
	v.node.printf("%s: TearDown with %v: after %v: %s.\n", v.pod, limit, since(begin), said)
	return err
}

func since(begin time.Time) time.Duration { return time.Since(begin).Round(100 * time.Millisecond) }

// mountEntry returns the mount table's entry for the volume's path.
func (v *podVolume) mountEntry(ctx context.Context) (mount.Info, error) {
	table, err := v.node.mounter.List(ctx)
	if err != nil {
		return mount.Info{}, err
	}
	info, ok := mount.Table(table).At(v.GetPath())
	if !ok {
		return info, errors.New("the volume is not mounted")
	}
	return info, nil
}

// printState prints the kernel's view of the mount, then the server's view of the files.
func (v *podVolume) printState(ctx context.Context) error {
	info, err := v.mountEntry(ctx)
	if err != nil {
		return err
	}
	v.node.printf("Mounted for pod %s, below %s:\n", v.pod, v.node.root)
	v.row("path", v.node.relative(v.GetPath()))
	v.row("source", info.Source)
	v.row("type", info.FSType)
	v.row("flags", info.Flags.String())
	v.row("options", strings.Join(info.SuperOptions, ","))
	files, err := fewNames(ctx, v.GetPath())
	if err != nil {
		return err
	}
	v.row("files", files)
	metrics, err := v.GetMetrics(ctx)
	if err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	v.row("usage", usage(metrics))
	return nil
}

// showBriefly prints one line, without a query of the server.
func (v *podVolume) showBriefly(ctx context.Context) error {
	info, err := v.mountEntry(ctx)
	if err == nil {
		v.node.printf("%s: %s (%s), %v.\n", v.pod, cli.OneLine(info.Source), info.FSType, info.Flags)
	}
	return err
}

func (v *podVolume) row(name, value string) { v.node.printf("  %-8s %s\n", name, cli.OneLine(value)) }
