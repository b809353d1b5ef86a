package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"k8s.io/apimachinery/pkg/util/validation"
)

// options are the program's flags.
type options struct {
	manifests string // empty: a demonstration
	root      string
	allowed
	node      string // empty: the host's name
	labels    labels
	tokenFile string
	once      bool
	timeout   time.Duration
	status    bool
}

// allowed limits the access of manifests to the node.
type allowed struct {
	disks       cli.Paths // below which local volumes may be
	deviceLinks cli.Paths // of links to block devices
	hostPaths   cli.Paths // at and below which host paths may be
	links       cli.Paths // in which links are followed to host paths
	devices     bool      // host paths may be device files
}

func (a allowed) isNothing() bool {
	return len(a.disks)+len(a.deviceLinks)+len(a.hostPaths)+len(a.links) == 0 && !a.devices
}

func (a *allowed) addTo(set *flag.FlagSet) {
	set.Var(&a.disks, "disks", "`DIR`s, with commas, below which local volumes may be, and block devices right in them (default: none)")
	set.Var(&a.deviceLinks, "device-links", "`DIR`s, with commas, of links to block devices that local volumes may be on, such as /dev/disk/by-id (default: none)")
	set.Var(&a.hostPaths, "host-paths", "`PATH`s, with commas, at or below which host paths may be (default: none)")
	set.Var(&a.links, "links", "`DIR`s, with commas, in which symbolic links of root's are followed on the way to a host path (default: none)")
	set.BoolVar(&a.devices, "devices", false, "let host paths of the types CharDevice and BlockDevice be used as devices")
}

func (o options) isDemo() bool { return o.manifests == "" }

func (o *options) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet("fileagent", flag.ContinueOnError)
	set.StringVar(&o.manifests, "manifests", "", "the `DIR` with the manifests (default: a demonstration)")
	set.StringVar(&o.root, "root", "", "the `DIR` below which the volumes are set up (default: .fileagent in that of -manifests)")
	o.addTo(set)
	set.StringVar(&o.node, "node", "", "the `NAME` of this node (default: the host's)")
	set.Var(&o.labels, "node-labels", "labels of this node for the node affinity of volumes: `KEY=VALUE`, with commas (default: kubernetes.io/hostname)")
	set.StringVar(&o.tokenFile, "token-file", "", "a `FILE` with the token of all service accounts (default: made up, and says so)")
	set.BoolVar(&o.once, "once", false, "exit as soon as all is as desired")
	o.timeout = 2 * time.Minute
	set.Var((*cli.Duration)(&o.timeout), "timeout", cli.DurationUsage("with -once, and at the end of the demonstration: give up after that"))
	set.BoolVar(&o.status, "status", false, "print what is mounted for which pod, and exit")
	return set
}

// parseOptions prints the usage if the arguments request it, with flag.ErrHelp.
func parseOptions(args []string, help io.Writer) (options, error) {
	var o options
	set := o.flagSet()
	if err := cli.Parse(set, args, help, "fileagent keeps the volumes of the pods in a directory of manifests set up."); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, err
	}
	return o, o.resolve()
}

// check refuses contradictory flags.
func (o *options) check() error {
	switch {
	case o.status && o.manifests == "" && o.root == "":
		return errors.New("-status: requires -manifests or -root")
	case o.status && o.once:
		return errors.New("-status and -once exclude each other")
	case !o.status && o.manifests == "" && (o.root != "" || !o.isNothing()):
		return errors.New("-root, -disks, -host-paths and the like require -manifests")
	case o.node != "" && len(validation.IsDNS1123Subdomain(o.node)) > 0:
		return fmt.Errorf("-node %q: %s", o.node, validation.IsDNS1123Subdomain(o.node)[0])
	case o.timeout <= 0:
		return fmt.Errorf("-timeout must be more than 0s, got %v", o.timeout)
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
			return fmt.Errorf("-manifests %s: a symbolic link, which may change, requires -root", o.manifests)
		}
		o.root = filepath.Join(o.manifests, ".fileagent")
	}
	if o.root != "" {
		o.root, err = filepath.Abs(o.root)
	}
	return err
}
