package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// options are the program's flags.
type options struct {
	server       string
	path         string
	readOnly     bool
	mountOptions optionList
	timeout      time.Duration

	demo   bool
	kernel string // of the demo; empty: defaultKernel
}

const (
	defaultTimeout = 30 * time.Second
	defaultKernel  = "6.12"
)

// An optionList is a flag that may be given several times, with commas.
type optionList []string

func (l *optionList) String() string { return strings.Join(*l, ",") }

func (l *optionList) Set(list string) error {
	for option := range strings.SplitSeq(list, ",") {
		if option == "" {
			return errors.New("an empty option")
		}
		*l = append(*l, option)
	}
	return nil
}

func (o *options) flagSet() *flag.FlagSet {
	set := flag.NewFlagSet("nfs", flag.ContinueOnError)
	set.StringVar(&o.server, "server", "", "the `HOST` to mount from: a name or an address")
	set.StringVar(&o.path, "path", "", "the `/EXPORT` of the server")
	set.BoolVar(&o.readOnly, "ro", false, "mount it read-only")
	set.Var(&o.mountOptions, "o", "`OPTIONS` to mount with, separated by commas; may be repeated")
	set.DurationVar(&o.timeout, "timeout", defaultTimeout, "how `long` each step may take")
	set.BoolVar(&o.demo, "demo", false, "bring a kernel and an NFS server along, and show more; needs no root")
	set.StringVar(&o.kernel, "kernel", "", "with -demo: `NAME` of the kernel, 6.1, 6.12 or sid (default: "+defaultKernel+")")
	return set
}

// parseOptions prints the usage if it is asked for, with flag.ErrHelp.
func parseOptions(args []string, help io.Writer) (options, error) {
	var o options
	set := o.flagSet()
	set.SetOutput(io.Discard)
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		set.SetOutput(help)
		_, _ = fmt.Fprintln(help, "nfs mounts an NFS export for a pod, shows it, and takes it down again.")
		set.PrintDefaults()
	}
	if err != nil {
		return o, err
	}
	return o, o.check(set.Args())
}

// check refuses what makes no sense together.
func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.demo:
		return o.checkDemo()
	case o.kernel != "":
		return errors.New("-kernel is for -demo: without it, this machine's kernel mounts")
	case o.server == "" || o.path == "":
		return errors.New("-server and -path say what to mount; -demo needs neither")
	case o.timeout <= 0:
		return fmt.Errorf("-timeout %v: some time is needed", o.timeout)
	}
	return nil
}

func (o *options) checkDemo() error {
	if o.server != "" || o.path != "" || o.readOnly || len(o.mountOptions) > 0 || o.timeout != defaultTimeout {
		return errors.New("-demo takes no other flag than -kernel: it brings its own server")
	}
	return nil
}

// volumeName is what the volume is called in the pod.
const volumeName = "export"

// spec returns the volume as a pod has it in itself, or as a persistent volume,
// which alone can have mount options.
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
