package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/examples/internal/cli"
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

// setUp brings the volume up. Whether or not that succeeds, it is to be taken
// down.
func (v *podVolume) setUp(ctx context.Context) error {
	v.node.volumes = append(v.node.volumes, v)
	if err := v.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return fmt.Errorf("set up the volume of %s: %w", v.pod, err)
	}
	return nil
}

// tearDown takes it down by what is on disk and in the mount table alone, and
// removes the directories of the pod. What took too long is tried again, as a node
// agent does: nothing that was achieved is lost.
func (v *podVolume) tearDown(ctx context.Context, limit time.Duration) error {
	const most = 5
	err := v.tryTearDown(ctx, limit)
	for tries := 1; tries < most && errors.Is(err, context.DeadlineExceeded); tries++ {
		err = v.tryTearDown(ctx, limit)
	}
	if err == nil {
		err = util.RemoveEmptyParents(v.node.root, v.GetPath())
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

// mounted returns what the mount table has at the volume's path.
func (v *podVolume) mounted(ctx context.Context) (mount.Info, error) {
	table, err := v.node.mounter.List(ctx)
	if err != nil {
		return mount.Info{}, err
	}
	info, ok := mount.Table(table).At(v.GetPath())
	if !ok {
		return info, errors.New("nothing is mounted")
	}
	return info, nil
}

// show prints what the volume is: what the kernel says of the mount, then what the
// server says of the files.
func (v *podVolume) show(ctx context.Context) error {
	info, err := v.mounted(ctx)
	if err != nil {
		return err
	}
	v.node.printf("Mounted for pod %s, below %s:\n", v.pod, v.node.root)
	v.row("path", v.node.short(v.GetPath()))
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

// showBriefly is show in one line, without asking the server.
func (v *podVolume) showBriefly(ctx context.Context) error {
	info, err := v.mounted(ctx)
	if err == nil {
		v.node.printf("%s: %s (%s), %v.\n", v.pod, cli.OneLine(info.Source), info.FSType, info.Flags)
	}
	return err
}

func (v *podVolume) row(name, value string) { v.node.printf("  %-8s %s\n", name, cli.OneLine(value)) }
