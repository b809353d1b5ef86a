package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// options are the program's flags.
type options struct {
	server       string
	path         string
	readOnly     bool
	mountOptions cli.Options
	timeout      time.Duration

	demo   bool
	kernel string // of the demo; empty: defaultKernel
}

const (
	defaultTimeout = 30 * time.Second
	defaultKernel  = "6.12"
)

func (o *options) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet("nfs", flag.ContinueOnError)
	set.StringVar(&o.server, "server", "", "the `HOST` to mount from: a name or an address")
	set.StringVar(&o.path, "path", "", "the `/EXPORT` of the server")
	set.BoolVar(&o.readOnly, "ro", false, "mount it read-only")
	set.Var(&o.mountOptions, "o", "`OPTIONS` to mount with, separated by commas; may be repeated")
	o.timeout = defaultTimeout
	set.Var((*cli.Duration)(&o.timeout), "timeout", cli.DurationUsage("give each step up after that"))
	set.BoolVar(&o.demo, "demo", false, "bring a kernel and an NFS server along, and show more; needs no root")
	set.StringVar(&o.kernel, "kernel", "", "with -demo: `NAME` of the kernel, 6.1, 6.12 or sid (default: "+defaultKernel+")")
	return set
}

// parseOptions prints the usage if the arguments request it, with flag.ErrHelp.
func parseOptions(args []string, help io.Writer) (options, error) {
	var o options
	set := o.flagSet()
	if err := cli.Parse(set, args, help, "nfs mounts an NFS export for a pod, shows it, and takes it down again."); err != nil {
		return o, err
	}
	return o, o.check()
}

// check refuses contradictory flags.
func (o *options) check() error {
	switch {
	case o.demo:
		return o.checkDemo()
	case o.kernel != "":
		return errors.New("-kernel: requires -demo")
	case o.server == "" || o.path == "":
		return errors.New("-server and -path are required, except with -demo")
	case o.timeout <= 0:
		return fmt.Errorf("-timeout must be more than 0s, got %v", o.timeout)
	}
	return nil
}

func (o *options) checkDemo() error {
	if o.server != "" || o.path != "" || o.readOnly || len(o.mountOptions) > 0 || o.timeout != defaultTimeout {
		return errors.New("-demo: no other flag than -kernel is allowed")
	}
	return nil
}

// volumeName is the volume's name in the pod.
const volumeName = "export"

// spec returns the volume as a pod's own, or as a persistent volume, which alone can have
// mount options.
func (o *options) spec() *volume.Spec {
	source := &v1.NFSVolumeSource{Server: o.server, Path: o.path, ReadOnly: o.readOnly}
	if len(o.mountOptions) == 0 {
		return volume.NewSpecFromVolume(&v1.Volume{
			Name:         volumeName,
			VolumeSource: v1.VolumeSource{NFS: source},
		})
	}
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{NFS: source},
			MountOptions:           o.mountOptions,
		},
	}, o.readOnly)
}
