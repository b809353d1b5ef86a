package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util/scrub"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const provisioner = "example.com/directories"

// directories provisions a directory of a node below root for each claim.
type directories struct{ root, node string }

// Provision makes the directory of a volume. A second call for the volume finds the directory.
func (d directories) Provision(_ context.Context, options provision.Options) (*v1.PersistentVolume, error) {
	for name, value := range options.StorageClass.Parameters {
		return nil, field.Invalid(field.NewPath("parameters").Key(name), value, "the class must have no parameter")
	}
	path := filepath.Join(d.root, options.PVName)
	if err := os.Mkdir(path, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	pv := &v1.PersistentVolume{}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: path}
	here := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{d.node}}
	terms := []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{here}}}
	pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
	return pv, nil
}

// Delete removes the directory of a volume with all its files. A directory that is gone is no error.
func (d directories) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	path := filepath.Join(d.root, pv.Name)
	dir, err := scrub.Open(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	_, err = dir.Empty(ctx, scrub.Options{})
	return errors.Join(err, dir.Close(), os.Remove(path))
}

// run provisions the claims of a cluster until ctx ends.
func (d directories) run(ctx context.Context, cluster provision.Cluster, events func(api.Event)) error {
	controller, err := provision.New(provision.Config{Name: provisioner, Provisioner: d, Cluster: cluster, Events: events})
	if err == nil {
		err = controller.Run(ctx)
	}
	return err
}
