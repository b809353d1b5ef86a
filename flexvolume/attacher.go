package flexvolume

import (
	"context"
	"errors"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CanAttach reports whether the driver has the capability attach. A driver that is not installed is a transient
// error that wraps [ErrNoDriver].
func (p *Plugin) CanAttach(ctx context.Context, spec *volume.Spec) (bool, error) {
	return p.CanDeviceMount(ctx, spec)
}

// NewAttacher returns the attacher of all volumes of the driver.
func (p *Plugin) NewAttacher() (volume.Attacher, error) { return p.newAttacher() }

// NewDetacher returns the detacher of all volumes of the driver.
func (p *Plugin) NewDetacher() (volume.Detacher, error) { return p.newAttacher() }

func (p *Plugin) newAttacher() (*attacher, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	return &attacher{p}, nil
}

type attacher struct{ plugin *Plugin }

// Attach implements [volume.Attacher] by the call attach. The protocol has no answer for a volume that is attached to
// another node: an error is never a [*volume.DanglingAttachError]. After a failure of the driver the error is
// uncertain.
func (a *attacher) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (devicePath string, err error) {
	defer brief.Shorten(&err)
	s, err := a.plugin.sourceOf(spec)
	if err == nil {
		err = checkNode(node)
	}
	if err != nil {
		return "", err
	}
	answer, err := a.plugin.callForVolume(ctx, s.name, call{operation: "attach", args: []string{a.plugin.optionsOf(s), string(node)}})
	return answer.Device, withCallKind(ignoreNotSupported(err))
}

// WaitForAttach implements [volume.Attacher] by the call waitforattach, within ten minutes. After a failure the error
// is transient.
func (a *attacher) WaitForAttach(ctx context.Context, spec *volume.Spec, devicePath string, _ *v1.Pod) (_ string, err error) {
	defer brief.Shorten(&err)
	s, err := a.plugin.sourceOf(spec)
	if err == nil {
		err = checkDevice(field.NewPath("devicePath"), devicePath)
	}
	if err != nil {
		return "", err
	}
	answer, err := a.plugin.callForVolume(ctx, s.name, call{operation: "waitforattach", args: []string{devicePath, a.plugin.optionsOf(s)}, waits: true})
	switch {
	case errors.Is(err, errNotSupported):
		return devicePath, nil
	case err != nil:
		return "", volume.AsTransient(err)
	}
	return answer.Device, nil
}

// VolumesAreAttached implements [volume.Attacher] by a call isattached for each volume. For a driver without the
// operation all volumes count as attached. After a failure the error is transient.
func (a *attacher) VolumesAreAttached(ctx context.Context, specs []*volume.Spec, node types.NodeName) (_ map[*volume.Spec]bool, err error) {
	defer brief.Shorten(&err)
	if err := checkNode(node); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, volume.AsTransient(ctxend.Error(ctx))
	}
	attached := make(map[*volume.Spec]bool, len(specs))
	for _, spec := range specs {
		s, err := a.plugin.sourceOf(spec)
		if err != nil {
			return nil, err
		}
		answer, err := a.plugin.callForVolume(ctx, s.name, call{operation: "isattached", args: []string{a.plugin.optionsOf(s), string(node)}})
		if err != nil && !errors.Is(err, errNotSupported) {
			return nil, volume.AsTransient(err)
		}
		attached[spec] = answer.Attached || err != nil
	}
	return attached, nil
}

// Detach implements [volume.Detacher] by the call detach, with the volume's name. After a failure of the driver the
// error is uncertain.
func (a *attacher) Detach(ctx context.Context, req volume.DetachRequest) (err error) {
	defer brief.Shorten(&err)
	if err := volume.ValidatePathComponent(field.NewPath("req", "volumeName"), req.VolumeName); err != nil {
		return err
	}
	if err := checkNode(req.Node); err != nil {
		return err
	}
	_, err = a.plugin.callForVolume(ctx, req.VolumeName, call{operation: "detach", args: []string{req.VolumeName, string(req.Node)}})
	return withCallKind(ignoreNotSupported(err))
}

// callForVolume calls the driver. An error is errNotSupported, a *CallError, or one of Plugin.current.
func (p *Plugin) callForVolume(ctx context.Context, name string, c call) (answer, error) {
	d, err := p.current(ctx)
	if err != nil {
		return answer{}, err
	}
	return p.callVolume(ctx, d, name, c)
}

// callVolume calls the driver, as the only call for a volume that changes more than its mounts, or as the only one of an
// operation that reads.
func (p *Plugin) callVolume(ctx context.Context, d *installed, name string, c call) (answer, error) {
	c.key = "volume " + name
	if c.operation == "waitforattach" || c.operation == "isattached" {
		c.key = c.operation + " " + name
	}
	return p.call(ctx, d, c)
}

// ignoreNotSupported returns nil for an operation that the driver does not support.
func ignoreNotSupported(err error) error {
	if errors.Is(err, errNotSupported) {
		return nil
	}
	return err
}

func checkNode(node types.NodeName) error {
	at := field.NewPath("node")
	switch {
	case node == "":
		return field.Required(at, "the call needs a node")
	case !isPlain(string(node)):
		return volume.Invalid(at, string(node), "must have no blanks and no control characters")
	}
	return nil
}

// checkDevice accepts an empty name, and each name that an answer can have.
func checkDevice(at *field.Path, device string) error {
	if len(device) > maxDevice || strings.ContainsRune(device, 0) {
		return volume.Invalid(at, device, "must be a path")
	}
	return nil
}
