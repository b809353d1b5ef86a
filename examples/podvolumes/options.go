package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/volumekit/volumekit/internal/cli"
)

// options are the program's flags.
type options struct {
	file  string    // of the manifest; empty: the built-in one
	root  string    // empty: a fresh temporary directory
	disks cli.Paths // below which the manifest's local and hostPath volumes may be
	wait  time.Duration

	devices, keep, down, dryRun bool
}

func (o *options) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet("podvolumes", flag.ContinueOnError)
	set.StringVar(&o.file, "f", "", "the `FILE` with the manifest, \"-\" for standard input (default: a built-in one)")
	set.StringVar(&o.root, "root", "", "the `DIR` below which the volumes are set up (default: a temporary one)")
	set.Var(&o.disks, "disks", "with -f: `DIR`s, with commas, below which local and hostPath volumes may be (default: none)")
	set.BoolVar(&o.devices, "devices", false, "with -f: let hostPath volumes be devices (CharDevice, BlockDevice); needs root")
	set.Var((*cli.Duration)(&o.wait), "wait", cli.DurationUsage("keep the volumes up for that long before they are taken down"))
	set.BoolVar(&o.keep, "keep", false, "leave the volumes up; needs root")
	set.BoolVar(&o.down, "down", false, "take down all volumes below -root, from what is on disk alone")
	set.BoolVar(&o.dryRun, "dry-run", false, "mount nothing: use an in-memory kernel")
	return set
}

// parseOptions prints the usage if it is asked for, with flag.ErrHelp.
func parseOptions(args []string, help io.Writer) (options, error) {
	var o options
	set := o.flagSet()
	if err := cli.Parse(set, args, help, "podvolumes mounts the volumes of a pod, shows them, and takes them down again."); err != nil {
		return o, err
	}
	return o, o.check()
}

// check refuses flags that contradict each other.
func (o *options) check() error {
	switch {
	case o.down && o.root == "":
		return errors.New("-down: requires -root")
	case o.down && (o.file != "" || o.keep || o.dryRun || o.wait != 0 || len(o.disks) > 0 || o.devices):
		return errors.New("-down: no other flag than -root is allowed")
	case o.keep && o.dryRun:
		return errors.New("-keep: an in-memory kernel ends with the program")
	case len(o.disks) > 0 && o.file == "":
		return errors.New("-disks: requires -f, the built-in manifest has its own disks")
	case o.devices && o.file == "":
		return errors.New("-devices: requires -f, the built-in manifest has no devices")
	case o.devices && o.dryRun:
		return errors.New("-devices: an in-memory kernel has no devices")
	case o.wait < 0:
		return fmt.Errorf("-wait must be at least 0s, got %v", o.wait)
	}
	return nil
}
