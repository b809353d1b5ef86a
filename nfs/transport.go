package nfs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Transport selects the party that negotiates with the server before the mount: the
// kernel alone, or the program mount.nfs.
type Transport int

const (
	// Automatic lets the kernel mount by version 4, and uses the program where other
	// programs are needed: version 3 and Kerberos. A server without version 4 is then
	// tried by version 3.
	Automatic Transport = iota
	// Direct lets the kernel mount, always. Version 3 then requires the options nolock
	// and mountport, and Kerberos is refused.
	Direct
	// Helper uses the program, always.
	Helper
)

var transportNames = [...]string{"automatic", "direct", "helper"}

// String returns the transport in one word.
func (t Transport) String() string {
	if t.check() != nil {
		return "unknown transport"
	}
	return transportNames[t]
}

func (t Transport) check() error {
	if t < 0 || int(t) >= len(transportNames) {
		return field.NotSupported(field.NewPath("config", "transport"), strconv.Itoa(int(t)), transportNames[:])
	}
	return nil
}

// checkWish refuses options that the kernel alone cannot honour, if it has to.
func (t Transport) checkWish(spec *volume.Spec, w wish) error {
	if t != Direct {
		return nil
	}
	options := spec.MountOptions()
	switch {
	case w.version == "3" && !w.isComplete():
		i := slices.IndexFunc(options, func(o string) bool { return subjects[keyOf(o)] == "version" })
		return volume.Invalid(optionField(spec, i), options[i],
			"without the program mount.nfs version 3 takes the options nolock and mountport")
	case w.kerberos():
		i := slices.IndexFunc(options, func(o string) bool { return keyOf(o) == "sec" })
		return volume.Invalid(optionField(spec, i), options[i], "Kerberos requires the program mount.nfs")
	}
	return nil
}

// requests returns the mount requests to try in order until the server supports the version of one.
// The target is not set.
func (t Transport) requests(s source, w wish, readOnly bool) []mount.Request {
	kernel := request(s, w.forKernel(), readOnly)
	kernel.Helper = mount.HelperNever
	program := request(s, w.forProgram(), readOnly)
	program.Helper = mount.HelperAlways
	switch {
	case t == Helper, t == Automatic && (w.kerberos() || w.version == "3" && !w.isComplete()):
		return []mount.Request{program}
	case t == Automatic && w.version == "":
		program.Options = append(program.Options, "vers=3")
		return []mount.Request{kernel, program}
	}
	return []mount.Request{kernel}
}

func request(s source, options []string, readOnly bool) mount.Request {
	if readOnly { // an "rw" of the volume's options; this pod mounts it read-only
		options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "rw" || o == "ro" })
		options = append(options, "ro")
	}
	return mount.Request{Source: s.String(), FSType: "nfs", Options: options}
}

// mountFirst mounts by the first way that works. If the last way fails for want of a program,
// the error is about the first way and names the requirement of the last.
func mountFirst(ways []mount.Request, mounting func(mount.Request) error) error {
	first := mounting(ways[0])
	if len(ways) == 1 || !errors.Is(first, syscall.EPROTONOSUPPORT) || volume.KindOf(first) == volume.Uncertain {
		return first
	}
	err := mounting(ways[1])
	if helper := (*mount.HelperError)(nil); errors.As(err, &helper) && errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w (by version 3, without version 4: %w)", first, err)
	}
	return err
}
