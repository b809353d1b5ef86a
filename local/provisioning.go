package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// QuotaAnnotation is the annotation of a provisioned volume about its size: "project N" if the quota of
// this project of the file system limits the volume to its capacity, or else "none: " and the reason.
const QuotaAnnotation = "volumekit.io/local-quota"

// Parameters of a storage class for [ProvisioningPlugin]. Others are refused.
const (
	// RootParameter is the directory, one of ProvisioningConfig.ClaimRoots, for the volumes of the
	// class. Default: the one with the most space available. The first one stays unless a later
	// one has more by 5 % and by 1 % of its capacity, or alone has space for the volume.
	RootParameter = "root"
	// ModeParameter is the mode of the directories, octal, such as "0770". Default: "0777", since the
	// users of the pods are not known.
	ModeParameter = "mode"
	// QuotaParameter is "prefer", the default, or "require": then Provision fails on a file system
	// that enforces no project quotas.
	QuotaParameter = "quota"
)

// ProvisioningConfig configures a [ProvisioningPlugin].
type ProvisioningConfig struct {
	// Config configures the plugin. Config.Roots need not contain the ClaimRoots.
	Config
	// Provisioner is the provisioner in storage classes. Volumes of other classes are a
	// *volume.IgnoredError. Required.
	Provisioner string
	// ClaimRoots are the directories in which Provision creates a directory for each claim. Like
	// Config.Roots they must exist, and only root may be able to write to them. Files that are no
	// volumes are in their subdirectory .volumekit. Required.
	ClaimRoots []string
	// FormerClaimRoots are ClaimRoots of earlier times, in which Provision creates nothing any more, and from which Delete
	// deletes. Like ClaimRoots they must exist.
	FormerClaimRoots []string
	// Hostname is the label kubernetes.io/hostname of this node, to which the volumes are bound. It
	// must never change. Empty: VolumeHost.NodeName.
	Hostname string
}

// A ProvisioningPlugin is a [Plugin] that also provisions and deletes directories, one for each claim.
// Run one on each node: claims with another selected node, and volumes with affinity to another node,
// are a *volume.IgnoredError.
//
// # Provision
//
// The directory is named by the volume, and marked as provisioned by a record in .volumekit. Provision
// is idempotent: an interrupted call is continued by the next one for the same volume, also after a
// crash. The options are checked before anything is created. A size that exceeds the file system of
// each root, and a missing quota that the class requires, are errors that wrap volume.ErrReschedule,
// or volume.ErrInfeasible without a selected node; other invalid options are a [*field.Error] and wrap
// volume.ErrInfeasible.
//
// # Quota
//
// The size of the volume is enforced by a project quota, if the file system of the root is ext4 or xfs,
// mounted with prjquota, Linux is 5.14 or newer, and the process has CAP_SYS_ADMIN. Otherwise the
// annotation [QuotaAnnotation] of the volume names the reason, and so does the event of the claim, by
// [volume.ProvisioningNoteAnnotation]: the size is not enforced. The quota
// stops programs that write too much by mistake, not hostile ones: the owner of a file in the volume can
// assign the file to another project, unless the pod has a user namespace of its own, and ext4 does not
// limit processes with CAP_SYS_RESOURCE.
//
// # Delete
//
// Delete deletes a directory that has a record, with all its files, by util/scrub; a directory without
// one is a *volume.IgnoredError, and stays. A directory that is mounted is an error that wraps
// volume.ErrTransient, and so is a root without .volumekit: its file system may not be mounted. After
// an interrupted call the rest is deleted by the next one.
type ProvisioningPlugin struct {
	*Plugin
	provisioner string
	claimRoots  []string
	formerRoots []string
	hostname    string
	stores      []*claimStore
	former      []*claimStore // of FormerClaimRoots
	choosing    keylock.Map   // of names: one call chooses the root of a directory
}

var (
	_ volume.ProvisionableVolumePlugin = (*ProvisioningPlugin)(nil)
	_ volume.DeletableVolumePlugin     = (*ProvisioningPlugin)(nil)
)

// NewProvisioning returns the plugin. Init returns an error if the configuration is invalid.
func NewProvisioning(config ProvisioningConfig) *ProvisioningPlugin {
	config.Roots = slices.Concat(config.Roots, config.ClaimRoots, config.FormerClaimRoots)
	return &ProvisioningPlugin{
		Plugin: New(config.Config), provisioner: config.Provisioner,
		claimRoots: config.ClaimRoots, formerRoots: config.FormerClaimRoots, hostname: config.Hostname,
	}
}

// Init initialises the plugin as [Plugin.Init] does. A missing Provisioner, missing ClaimRoots and an
// invalid Hostname are errors, too. It creates no files.
func (p *ProvisioningPlugin) Init(ctx context.Context, host volume.VolumeHost) error {
	switch {
	case p.provisioner == "":
		return errors.New("local: ProvisioningConfig.Provisioner is missing")
	case len(p.claimRoots) == 0:
		return errors.New("local: ProvisioningConfig.ClaimRoots is missing")
	}
	if p.hostname == "" {
		p.hostname = string(host.NodeName())
	}
	if problems := validation.IsValidLabelValue(p.hostname); len(problems) > 0 {
		return fmt.Errorf("local: ProvisioningConfig.Hostname %s: %s", input.Quote(p.hostname), problems[0])
	}
	if err := p.Plugin.Init(ctx, host); err != nil {
		return err
	}
	former, err := openClaimStores(ctx, "ProvisioningConfig.FormerClaimRoots", p.formerRoots)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	stores, err := openClaimStores(ctx, "ProvisioningConfig.ClaimRoots", p.claimRoots)
	if err != nil {
		return fmt.Errorf("local: %w", err)
	}
	p.stores, p.former = stores, former
	return nil
}

func openClaimStores(ctx context.Context, field string, dirs []string) (stores []*claimStore, err error) {
	roots, err := resolveRoots(ctx, field, dirs)
	for _, r := range roots {
		stores = append(stores, &claimStore{root: r})
	}
	return stores, err
}

// NewProvisioner checks the options and returns the provisioner of a directory.
func (p *ProvisioningPlugin) NewProvisioner(options volume.VolumeOptions) (volume.Provisioner, error) {
	if p.stores == nil {
		return nil, errNotInitialised
	}
	if err := p.checkOwn(options); err != nil {
		return nil, err
	}
	r, err := p.parseRequest(options)
	if err != nil {
		return nil, fmt.Errorf("provision volume %s: %w: %w", input.Quote(options.PVName), err, volume.ErrInfeasible)
	}
	return &claimProvisioner{plugin: p, request: r, options: options}, nil
}

// checkOwn returns a *volume.IgnoredError for a claim of another provisioner, or of the provisioner on
// another node.
func (p *ProvisioningPlugin) checkOwn(o volume.VolumeOptions) error {
	if o.StorageClass.Provisioner != p.provisioner && o.StorageClass.Provisioner != "" {
		return &volume.IgnoredError{Reason: fmt.Sprintf("the class %s has the provisioner %s", input.Quote(o.StorageClass.Name), input.Quote(o.StorageClass.Provisioner))}
	}
	if n := o.SelectedNode; n != nil && n.Name != string(p.host.NodeName()) {
		return &volume.IgnoredError{Reason: "the provisioner on node " + input.Quote(n.Name) + " is responsible"}
	}
	return nil
}

// NewDeleter checks that the volume is one of this plugin, by its path and its node affinity. Others
// are a *volume.IgnoredError.
func (p *ProvisioningPlugin) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	if p.stores == nil {
		return nil, errNotInitialised
	}
	if err := p.check(spec); err != nil {
		return nil, err
	}
	if host, ok := ProvisionedFor(spec.PersistentVolume); !ok || host != p.hostname {
		return nil, &volume.IgnoredError{Reason: fmt.Sprintf("the volume has no affinity to %s=%s alone", v1.LabelHostname, p.hostname)}
	}
	for _, s := range p.allStores() {
		if s.pathOf(spec.Name()) == spec.PersistentVolume.Spec.Local.Path && checkClaimName(spec.Name()) == nil {
			return &claimDeleter{plugin: p, store: s, name: spec.Name()}, nil
		}
	}
	return nil, &volume.IgnoredError{Reason: input.Quote(spec.PersistentVolume.Spec.Local.Path) + " is no directory of a volume in a claim root, present or former"}
}

// allStores returns the stores in which directories may exist.
func (p *ProvisioningPlugin) allStores() []*claimStore { return slices.Concat(p.stores, p.former) }

// affinityTo returns the affinity to the node with a hostname.
func affinityTo(hostname string) *v1.VolumeNodeAffinity {
	r := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{hostname}}
	term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{r}}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
}

// ProvisionedFor returns the hostname of the node that has the storage of a volume, and whether the
// volume has the node affinity that a [ProvisioningPlugin] sets.
func ProvisionedFor(pv *v1.PersistentVolume) (hostname string, ok bool) {
	a := pv.Spec.NodeAffinity
	if a == nil || a.Required == nil || len(a.Required.NodeSelectorTerms) != 1 {
		return "", false
	}
	term := a.Required.NodeSelectorTerms[0]
	if len(term.MatchExpressions) != 1 || len(term.MatchFields) != 0 {
		return "", false
	}
	r := term.MatchExpressions[0]
	if r.Key != v1.LabelHostname || r.Operator != v1.NodeSelectorOpIn || len(r.Values) != 1 {
		return "", false
	}
	return r.Values[0], true
}
