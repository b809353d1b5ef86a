package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/examples/internal/cli"
)

// options are the program's flags.
type options struct {
	manifests string // empty: a demonstration
	root      string
	disks     cli.Paths
	hostPaths cli.Paths
	once      bool
	timeout   time.Duration
	status    bool
}

func (o options) isDemo() bool { return o.manifests == "" }

func (o *options) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet("nodeagent", flag.ContinueOnError)
	set.StringVar(&o.manifests, "manifests", "", "the `DIR` with the manifests (default: a demonstration)")
	set.StringVar(&o.root, "root", "", "the `DIR` below which the volumes are set up (default: .nodeagent in that of -manifests)")
	set.Var(&o.disks, "disks", "`DIR`s, with commas, below which local volumes may be (default: none)")
	set.Var(&o.hostPaths, "host-paths", "`PATH`s, with commas, at or below which host paths may be (default: none)")
	set.BoolVar(&o.once, "once", false, "exit as soon as all is as desired")
	set.DurationVar(&o.timeout, "timeout", 2*time.Minute, "with -once: give up after so `long`")
	set.BoolVar(&o.status, "status", false, "print what is mounted for which pod, and exit")
	return set
}

// parseOptions prints the usage if it is asked for, with flag.ErrHelp.
func parseOptions(args []string, help io.Writer) (options, error) {
	var o options
	set := o.flagSet()
	if err := cli.Parse(set, args, help, "nodeagent keeps the volumes of the pods in a directory of manifests set up."); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, err
	}
	return o, o.resolve()
}

// check refuses what makes no sense together.
func (o *options) check() error {
	switch {
	case o.status && o.manifests == "" && o.root == "":
		return errors.New("-status: say with -manifests or -root where to look")
	case o.status && o.once:
		return errors.New("-status and -once: one of them")
	case !o.status && o.manifests == "" && (o.root != "" || len(o.disks) > 0 || len(o.hostPaths) > 0):
		return errors.New("-root, -disks and -host-paths are for manifests of your own: see -manifests")
	case o.timeout <= 0:
		return fmt.Errorf("-timeout %v: not more than nothing", o.timeout)
	}
	return nil
}

func (o *options) resolve() (err error) {
	if o.manifests != "" {
		if o.manifests, err = filepath.Abs(o.manifests); err != nil {
			return err
		}
	}
	if o.root == "" && o.manifests != "" {
		if info, err := os.Lstat(o.manifests); err == nil && info.Mode()&os.ModeSymlink != 0 {
			return fmt.Errorf("-manifests %s is a symbolic link, and may come to lead elsewhere: say with -root where the volumes are", o.manifests)
		}
		o.root = filepath.Join(o.manifests, ".nodeagent")
	}
	if o.root != "" {
		o.root, err = filepath.Abs(o.root)
	}
	return err
}
