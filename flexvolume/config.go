package flexvolume

import (
	"context"
	"path/filepath"
	"strings"
	"time"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DefaultDir is the kubelet's default directory of drivers.
const DefaultDir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"

// DefaultTimeout is the deadline of a call without [Config].Timeout.
const DefaultTimeout = 2 * time.Minute

// waitTimeout is the least deadline of waitforattach, that of a kubelet.
const waitTimeout = 10 * time.Minute

// Config configures the plugin of a driver. Mounter and, for [New], Driver are required.
type Config struct {
	// Driver is the name of the driver: "vendor/driver". [Discover] and [Watch] ignore it.
	Driver string
	// Dir is the directory of drivers. It need not exist, but its parents must be writable for root alone:
	// they are not checked. Empty: [DefaultDir].
	Dir string
	// Mounter reads the mount table, and mounts and unmounts where the driver does not.
	Mounter mount.Interface
	// Disks formats, mounts and grows the devices of a driver that does not. Nil: new Disks on Mounter.
	Disks *disk.Disks
	// Secrets returns the Secrets that volumes name. Nil: a volume that names one is refused.
	Secrets SecretGetter
	// Timeout is the deadline of each call. Zero: [DefaultTimeout]. The call waitforattach, which
	// waits, may take ten minutes if that is longer.
	Timeout time.Duration
	// Env are variables of the driver's environment, as "NAME=value", besides PATH, which has the
	// directories of system programs. Do not put secrets there.
	Env []string
	// OnUnchanged is called for each file, or directory, of a volume that cannot be given to a pod's
	// FsGroup, such as an immutable file. If it returns nil the file stays as it is and SetUp goes on, as
	// with a kubelet; otherwise SetUp fails. Nil: SetUp fails. It may be called concurrently. A volume
	// that is read-only as a whole keeps its owners without a call.
	OnUnchanged func(ctx context.Context, file string, err error) error
}

// A SecretGetter returns Secrets.
type SecretGetter interface {
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// check validates the configuration, except for the driver.
func (c *Config) check() error {
	at := field.NewPath("config")
	switch {
	case c.Mounter == nil:
		return field.Required(at.Child("mounter"), "the plugin needs a mounter")
	case c.Timeout < 0:
		return volume.Invalid(at.Child("timeout"), c.Timeout.String(), "must be at least 0")
	case c.Dir != "" && !filepath.IsAbs(c.Dir), strings.ContainsRune(c.Dir, 0):
		return volume.Invalid(at.Child("dir"), c.Dir, "must be an absolute path without NUL")
	}
	for i, variable := range c.Env {
		if name, _, ok := strings.Cut(variable, "="); !ok || name == "" || strings.ContainsRune(variable, 0) {
			return volume.Invalid(at.Child("env").Index(i), name, `must be "NAME=value"`)
		}
	}
	return nil
}

// checkDriver validates the name of a driver, which is the name of its plugin.
func checkDriver(at *field.Path, name string) error {
	if problems := validation.IsQualifiedName(name); len(problems) > 0 {
		return volume.Invalid(at, name, problems[0])
	}
	if !strings.Contains(name, "/") {
		return volume.Invalid(at, name, `must be "vendor/driver"`)
	}
	return nil
}
