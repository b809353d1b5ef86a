package nfs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ProvisioningConfig configures a [ProvisioningPlugin]. Mounter, Provisioner, Server and Path are
// required.
type ProvisioningConfig struct {
	Config

	// Provisioner is the name of the provisioner in classes, and in the annotation
	// pv.kubernetes.io/provisioned-by of volumes. Classes and volumes of other provisioners are
	// ignored.
	Provisioner string
	// Server and Path are the export in which the directories of volumes are created.
	Server, Path string
	// Aliases are other servers and paths of the same export, such as those before the server moved. Delete deletes the
	// directories of volumes with an alias. New volumes have Server and Path.
	Aliases []ExportName
	// MountOptions are the options with which the plugin itself mounts the export. The volumes
	// have the options of their class.
	MountOptions []string
	// Dir is a directory at which the export is mounted already, such as a volume of the
	// provisioner's pod, for a process that may not mount. A call that the server does not answer
	// then stays in the kernel until the server answers. Empty: each call mounts the export below
	// the plugin's own directory, and unmounts it at its end.
	Dir string
	// Class returns the class with a name. Delete calls it for volumes without
	// [OnDeleteAnnotation], such as those of nfs-subdir-external-provisioner. Nil, or an
	// error of [volume.IsNotFound]: their directories are archived.
	Class func(ctx context.Context, name string) (*storagev1.StorageClass, error)
}

// An ExportName is a server with the path of an export.
type ExportName struct{ Server, Path string }

// A ProvisioningPlugin is a [Plugin] that also provisions volumes, each a directory of one export,
// and deletes them. Make one with [NewProvisioning]. The package documentation lists the
// parameters of classes.
//
// Calls for different volumes run concurrently; calls for one volume, in this process, one after
// the other. A call returns soon after its ctx ends. Its work may continue then: the error wraps
// [volume.ErrUncertain], and the next call for the volume waits for the end of that work.
type ProvisioningPlugin struct {
	*Plugin
	config ProvisioningConfig
	access exportAccess
}

var (
	_ volume.ProvisionableVolumePlugin = (*ProvisioningPlugin)(nil)
	_ volume.DeletableVolumePlugin     = (*ProvisioningPlugin)(nil)
)

// NewProvisioning returns the plugin. Init returns an error if the configuration is invalid.
func NewProvisioning(config ProvisioningConfig) *ProvisioningPlugin {
	return &ProvisioningPlugin{Plugin: New(config.Config), config: config}
}

// Init implements [volume.VolumePlugin]. It does not query the server.
func (p *ProvisioningPlugin) Init(ctx context.Context, host volume.VolumeHost) (err error) {
	defer brief.Shorten(&err)
	if err := p.Plugin.Init(ctx, host); err != nil {
		return err
	}
	if err := p.initAccess(host); err != nil {
		return fmt.Errorf("nfs: %w", err)
	}
	return nil
}

func (p *ProvisioningPlugin) initAccess(host volume.VolumeHost) error {
	at := field.NewPath("config")
	if p.config.Provisioner == "" {
		return field.Required(at.Child("provisioner"), "classes name the provisioner")
	}
	export, err := parseSource(at, &v1.NFSVolumeSource{Server: p.config.Server, Path: p.config.Path})
	if err != nil {
		return err
	}
	names := []source{export}
	for i, alias := range p.config.Aliases {
		name, err := parseSource(at.Child("aliases").Index(i), &v1.NFSVolumeSource{Server: alias.Server, Path: alias.Path})
		if err != nil {
			return err
		}
		names = append(names, name)
	}
	if dir := p.config.Dir; dir != "" && !path.IsAbs(dir) {
		return volume.Invalid(at.Child("dir"), dir, "must be absolute")
	}
	spec := export.spec("export", p.config.MountOptions)
	if _, err := p.Plugin.NewMounter(spec, accessPod("export")); err != nil {
		return renameOptionsField(err, at.Child("mountOptions"))
	}
	own, err := host.PluginDir(PluginName)
	if err != nil {
		return err
	}
	p.access = exportAccess{plugin: p.Plugin, export: export, names: names, spec: spec, mountedAt: p.config.Dir, own: path.Join(own, "provision")}
	return nil
}

// NewProvisioner returns the provisioner of a volume. A claim of a raw block device is an error that
// wraps [volume.ErrNotSupported], and a class of another provisioner is a [*volume.IgnoredError].
//
// An invalid class parameter or mount option, size, or name that becomes the directory is an error of
// Provision, which first removes the directory of an earlier call. The error names the field and its
// value, and wraps [volume.ErrInfeasible].
func (p *ProvisioningPlugin) NewProvisioner(options volume.VolumeOptions) (_ volume.Provisioner, err error) {
	defer brief.Shorten(&err)
	if p.access.plugin == nil {
		return nil, errNotInitialised
	}
	if err := volume.ValidatePathComponent(field.NewPath("options", "pvName"), options.PVName); err != nil {
		return nil, err
	}
	if class := options.StorageClass; class.Provisioner != "" && class.Provisioner != p.config.Provisioner {
		return nil, &volume.IgnoredError{Reason: fmt.Sprintf("class %q has another provisioner", class.Name)}
	}
	if claim := options.PVC; claim != nil && claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == v1.PersistentVolumeBlock {
		return nil, fmt.Errorf("claim %s: a raw block device of NFS: %w", claim.Name, volume.ErrNotSupported)
	}
	made, err := p.newProvisioner(options)
	if err != nil {
		return &provisioner{access: &p.access, options: options, invalid: infeasible(err)}, nil
	}
	return made, nil
}

func (p *ProvisioningPlugin) newProvisioner(options volume.VolumeOptions) (*provisioner, error) {
	if err := checkRequest(options); err != nil {
		return nil, err
	}
	parameters, err := parseParameters(options.StorageClass.Parameters)
	if err != nil {
		return nil, err
	}
	dir, given, err := directoryOf(options, parameters.pattern)
	if err != nil {
		return nil, err
	}
	made := &provisioner{access: &p.access, options: options, parameters: parameters, dir: dir, given: given}
	written := made.describe(dir)
	spec := volume.NewSpecFromPersistentVolume(written, false)
	if _, err := parsePath(field.NewPath("storageClass", "parameters").Key(pathPattern), written.Spec.NFS.Path); err != nil {
		return nil, err
	}
	if _, err := p.Plugin.NewMounter(spec, accessPod("export")); err != nil {
		return nil, renameOptionsField(err, field.NewPath("storageClass", "mountOptions"))
	}
	return made, nil
}

// NewDeleter validates the volume. A volume of another provisioner, of another export, or of the
// export itself is a [*volume.IgnoredError].
func (p *ProvisioningPlugin) NewDeleter(spec *volume.Spec) (_ volume.Deleter, err error) {
	defer brief.Shorten(&err)
	if p.access.plugin == nil {
		return nil, errNotInitialised
	}
	source, err := p.source(spec)
	if err != nil {
		return nil, err
	}
	pv := spec.PersistentVolume
	if pv == nil {
		return nil, &volume.IgnoredError{Reason: "the volume is not a persistent one"}
	}
	if err := p.checkProvisionedHere(pv); err != nil {
		return nil, err
	}
	dir, below := p.access.dirOf(source)
	if !below {
		return nil, &volume.IgnoredError{Reason: fmt.Sprintf("%s is not a directory below the export %s, nor below an alias of it", source, p.access.export)}
	}
	if err := checkReserved(field.NewPath("spec", "persistentVolume", "spec", "nfs", "path"), dir); err != nil {
		return nil, err
	}
	return &deleter{access: &p.access, pv: pv, dir: dir, class: p.config.Class}, nil
}

// provisionedBy is the annotation with the name of a volume's provisioner.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// checkProvisionedHere returns an *IgnoredError for a volume of another provisioner. A volume
// without both annotations was written by hand.
func (p *ProvisioningPlugin) checkProvisionedHere(pv *v1.PersistentVolume) error {
	by, annotated := pv.Annotations[provisionedBy]
	_, described := pv.Annotations[OnDeleteAnnotation]
	switch {
	case annotated && by != p.config.Provisioner:
		return &volume.IgnoredError{Reason: fmt.Sprintf("the volume was provisioned by %q", by)}
	case !annotated && !described:
		return &volume.IgnoredError{Reason: "the volume was not provisioned by " + p.config.Provisioner}
	}
	return nil
}

// dirOf returns the path of a directory relative to the export, by one of its names.
func (a *exportAccess) dirOf(dir source) (rel string, ok bool) {
	for _, name := range a.names {
		if rel, ok = name.below(dir); ok {
			return rel, true
		}
	}
	return "", false
}

// below returns the path of a directory relative to the export, and whether it is strictly below.
func (s source) below(dir source) (rel string, ok bool) {
	rel, ok = strings.CutPrefix(dir.path, strings.TrimSuffix(s.path, "/")+"/")
	return rel, ok && rel != "" && s.server == dir.server
}

// infeasible returns the error of a request that no retry fulfils.
func infeasible(err error) error {
	if err == nil || errors.Is(err, volume.ErrInfeasible) {
		return err
	}
	return fmt.Errorf("%w: %w", err, volume.ErrInfeasible)
}

// renameOptionsField sets the field of an error about a mount option to the field that holds the
// options.
func renameOptionsField(err error, at *field.Path) error {
	invalid := (*field.Error)(nil)
	if !errors.As(err, &invalid) {
		return err
	}
	renamed := *invalid
	renamed.Field = strings.Replace(renamed.Field, "spec.persistentVolume.spec.mountOptions", at.String(), 1)
	return &renamed
}
