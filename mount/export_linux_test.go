package mount

import (
	"testing"

	"golang.org/x/sys/unix"
)

// inNamespace is for the tests inside this package, which the helper that makes
// namespaces imports: those outside set it.
var inNamespace func(t *testing.T) bool

// SetNamespace sets inNamespace.
func SetNamespace(f func(t *testing.T) bool) { inNamespace = f }

// WithoutMountRoot makes the package ask as it does on kernels before 5.8.
func WithoutMountRoot(without bool) { withoutMountRoot = without }

// WithoutCachedLookups makes the package ask for each component of a path, as it
// does on kernels before 5.12.
func WithoutCachedLookups(without bool) { withoutCachedLookups = without }

// Tier returns the tier that the mounter mounts with.
func (m *Mounter) Tier() Tier {
	tier, _ := m.tier()
	return tier
}

// HasStatmount reports whether the kernel can say what a mount is on.
func HasStatmount() bool {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	_, err = statMount(fd)
	return err == nil
}
