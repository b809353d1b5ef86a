package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"path/filepath"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/examples/internal/machine"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/util/podvolume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

//go:embed pod.yaml
var builtin []byte

const builtinName = "pod.yaml"

// A manifest is a pod, and the objects that its volumes lead to.
type manifest struct {
	pod       *v1.Pod
	at        manifests.Document // of the pod
	documents []manifests.Document
}

// builtinBelow returns the built-in manifest with its disks below the base.
func builtinBelow(b base) []byte {
	path, _ := json.Marshal(filepath.ToSlash(string(b))) // as in a string of YAML
	return bytes.ReplaceAll(builtin, []byte("${ROOT}"), path[1:len(path)-1])
}

// parse refuses a manifest that does not have one pod. A pod without a UID gets one that
// is the same in the next run.
func parse(name string, text []byte) (*manifest, error) {
	documents, err := manifests.Parse(name, text)
	if err != nil {
		return nil, err
	}
	m := &manifest{documents: documents}
	kind := field.NewPath("kind")
	for _, d := range documents {
		pod, ok := d.Object.(*v1.Pod)
		if ok && m.pod != nil {
			return nil, d.Problem(field.Forbidden(kind, "one Pod is enough"))
		}
		if ok {
			m.pod, m.at = pod, d
		}
	}
	if m.pod == nil {
		return nil, manifests.Problem{File: name, Err: field.Required(kind, "one document is a Pod")}
	}
	if m.pod.UID == "" {
		m.pod.UID = types.UID(m.pod.Namespace + "_" + m.pod.Name)
	}
	return m, nil
}

// volumes follows each volume of the pod to its specification. One claim by two names is
// two views if one name only reads, and else one directory; a raw device is mapped once,
// and each name says for itself whether containers may write to it.
func (m *manifest) volumes() ([]podVolume, error) {
	found, err := manifests.Volumes(m.at, m.documents)
	if err == nil && len(found) == 0 {
		err = m.at.Problem(field.Required(field.NewPath("spec", "volumes"), "nothing to mount"))
	}
	if err != nil {
		return nil, err
	}
	all, views := make([]podVolume, len(found)), podvolume.ViewsOf(m.pod)
	for i, v := range found {
		source := &m.pod.Spec.Volumes[i]
		all[i] = podVolume{Volume: v, dir: views.DirectoryName(source, v.Spec)}
		all[i].Spec = views.Spec(source, v.Spec)
		if all[i].args, err = podvolume.MounterArgs(m.pod, source); err != nil {
			return nil, m.at.Problem(err)
		}
		for j := range all[:i] {
			if v.Claim != "" && all[j].Claim == v.Claim && all[j].dir == all[i].dir && !v.Spec.IsBlock() {
				readOnly := all[j].args.ReadOnly && all[i].args.ReadOnly // by all names of the claim
				all[j].args.ReadOnly, all[i].args.ReadOnly = readOnly, readOnly
			}
		}
	}
	return all, nil
}

// getter returns the content of the pod's files.
func (m *manifest) getter() *content.MapGetter {
	g := &content.MapGetter{}
	for _, d := range m.documents {
		switch object := d.Object.(type) {
		case *v1.ConfigMap:
			g.SetConfigMap(object)
		case *v1.Secret:
			g.SetSecret(object)
		}
	}
	g.SetNodeAllocatable(machine.Resources())
	account := cmp.Or(m.pod.Spec.ServiceAccountName, "default")
	g.SetToken(m.pod.Namespace, account, []byte(madeUpToken))
	return g
}

// madeUpToken is for pods that ask for a token of their service account: no cluster makes
// one here.
const madeUpToken = "made-up-by-podvolumes.no-server-accepts-it"
