package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A planned use is one that everything is ready for.
type planned struct {
	use
	plugin  volume.VolumePlugin
	mounter volume.Mounter
}

// plan finds the plugin of a volume and what else can be known beforehand.
func plan(mgr *volume.VolumePluginMgr, u use, pod *v1.Pod) (planned, error) {
	plugin, err := mgr.FindPluginBySpec(u.spec)
	if err != nil {
		return planned{}, u.refuse(u.unknownKind(err))
	}
	mounter, err := plugin.NewMounter(u.spec, pod)
	if err == nil {
		err = checkOptions(plugin, u.spec)
	}
	if err == nil {
		err = checkPath(u.spec)
	}
	if err != nil {
		return planned{}, u.refuse(u.inDocument(err))
	}
	return planned{u, plugin, mounter}, nil
}

func (u use) refuse(err error) error { return u.at.refuse(err) }

// readOnly reports whether the volume must not be written to.
func (u use) readOnly() bool { return u.args.ReadOnly || u.spec.IsReadOnly() }

const onlyRootGives = "only root gives files to the users and groups of a securityContext"

// hintOwners says what the kernel's refusal to change an owner means.
func (u use) hintOwners(err error) error {
	asked := u.args.FsUser != nil || u.args.FsGroup != nil
	if asked && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)) {
		return fmt.Errorf("%w (%s)", err, onlyRootGives)
	}
	return err
}

// sourceOf returns what is behind a volume that shows a part of this node.
func sourceOf(spec *volume.Spec) (path string, ok bool) {
	switch {
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.Local != nil:
		return spec.PersistentVolume.Spec.Local.Path, true
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.HostPath != nil:
		return spec.PersistentVolume.Spec.HostPath.Path, true
	case spec.Volume != nil && spec.Volume.HostPath != nil:
		return spec.Volume.HostPath.Path, true
	}
	return "", false
}

// checkOptions keeps mount options from plugins that would not look at them.
func checkOptions(plugin volume.VolumePlugin, spec *volume.Spec) error {
	able, ok := volume.As[volume.MountOptionsVolumePlugin](plugin)
	if options := spec.MountOptions(); len(options) > 0 && (!ok || !able.SupportsMountOption()) {
		return field.Forbidden(optionsPath, plugin.GetPluginName()+" takes none")
	}
	return nil
}

var (
	optionsPath = field.NewPath("spec", "mountOptions")
	localPath   = field.NewPath("spec", "local", "path")
)

// checkPath finds a missing directory before anything is mounted. What becomes of
// it until then is for the mounter to see.
func checkPath(spec *volume.Spec) error {
	if spec.PersistentVolume == nil || spec.PersistentVolume.Spec.Local == nil {
		return nil
	}
	path := spec.PersistentVolume.Spec.Local.Path
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return field.Invalid(localPath, path, "no such directory")
	case err != nil:
		return field.Invalid(localPath, path, err.Error())
	case info.Mode()&fs.ModeSymlink != 0:
		return field.Invalid(localPath, path, "a symbolic link")
	case !info.IsDir():
		return field.Invalid(localPath, path, "not a directory")
	}
	return nil
}

// unknownKind names the field that says what kind of volume it is.
func (u use) unknownKind(err error) error {
	if !errors.Is(err, volume.ErrNoPluginMatched) {
		return u.inDocument(err)
	}
	path := u.at.path
	var source any
	if u.spec.PersistentVolume != nil {
		path, source = field.NewPath("spec"), u.spec.PersistentVolume.Spec.PersistentVolumeSource
	} else {
		source = u.spec.Volume.VolumeSource
	}
	for name := range fieldsOf(source) {
		path = path.Child(name)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// fieldsOf returns the fields of an API object that are set.
func fieldsOf(object any) map[string]json.RawMessage {
	var fields map[string]json.RawMessage
	text, err := json.Marshal(object)
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return nil
	}
	return fields
}

// inDocument names the field as the document has it: plugins know it as a part of
// a volume.Spec.
func (u use) inDocument(err error) error {
	if refused := (*mount.InputError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("%s: %w", optionsPath, err)
	}
	refused := (*field.Error)(nil)
	if !errors.As(err, &refused) {
		return err
	}
	moved := *refused
	moved.Field = u.fieldOf(refused.Field)
	return &moved
}

func (u use) fieldOf(name string) string {
	if u.spec.Volume == nil {
		return strings.TrimPrefix(name, "spec.persistentVolume.")
	}
	if rest, ok := strings.CutPrefix(name, "spec.volume."); ok {
		return u.at.path.String() + "." + rest
	}
	if name == "spec" {
		return u.at.path.String()
	}
	return name
}
