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

// A Transport says who speaks to the server before an export is mounted: the
// kernel alone, or the program mount.nfs.
type Transport int

const (
	// Automatic lets the kernel mount by version 4, and uses the program for what
	// takes other programs besides: version 3 and Kerberos. A server that has no
	// version 4 is tried by version 3 then.
	Automatic Transport = iota
	// Direct lets the kernel mount, always. Version 3 takes the options nolock and
	// mountport then, and Kerberos is refused.
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

// checkWish refuses what the kernel cannot do by itself, if it has to.
func (t Transport) checkWish(spec *volume.Spec, w wish) error {
	if t != Direct {
		return nil
	}
	options := spec.MountOptions()
	switch {
	case w.version == "3" && !w.alone():
		i := slices.IndexFunc(options, func(o string) bool { return subjects[keyOf(o)] == "version" })
		return volume.Invalid(optionField(spec, i), options[i],
			"without the program mount.nfs version 3 takes the options nolock and mountport")
	case w.kerberos():
		i := slices.IndexFunc(options, func(o string) bool { return keyOf(o) == "sec" })
		return volume.Invalid(optionField(spec, i), options[i], "Kerberos takes the program mount.nfs")
	}
	return nil
}

// ways returns the requests to try, one after the other as long as the server has
// not the version. The target is not in them.
func (t Transport) ways(s source, w wish, readOnly bool) []mount.Request {
	kernel := request(s, w.forKernel(), readOnly)
	kernel.Helper = mount.HelperNever
	program := request(s, w.forProgram(), readOnly)
	program.Helper = mount.HelperAlways
	switch {
	case t == Helper, t == Automatic && (w.kerberos() || w.version == "3" && !w.alone()):
		return []mount.Request{program}
	case t == Automatic && w.version == "":
		program.Options = append(program.Options, "vers=3")
		return []mount.Request{kernel, program}
	}
	return []mount.Request{kernel}
}

func request(s source, options []string, readOnly bool) mount.Request {
	if readOnly { // an "rw" is that of a volume that this pod only reads
		options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "rw" || o == "ro" })
		options = append(options, "ro")
	}
	return mount.Request{Source: s.String(), FSType: "nfs", Options: options}
}

// inTurn mounts in one of the ways. If the last does not help the error is about
// the first, and what the last takes.
func inTurn(ways []mount.Request, mounting func(mount.Request) error) error {
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
