package main

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A use is a volume of the pod, and the specification that it leads to.
type use struct {
	name string // in the pod
	spec *volume.Spec
	args volume.MounterArgs
	at   position // of what says what kind of volume it is
}

// A position is a place in a document.
type position struct {
	where string
	path  *field.Path // nil: the whole document
}

func (p position) refuse(err error) error { return fmt.Errorf("%s: %w", p.where, err) }

// A claim is a document, or a template in a pod.
type claim struct {
	position
	*v1.PersistentVolumeClaim
}

// uses follows each volume of the pod through its claim to what is behind it. No
// two lead to the same volume: they would be in the same place on disk.
func (m *manifest) uses() ([]use, error) {
	pod := m.pods[0].object
	var all []use
	for i, v := range pod.Spec.Volumes {
		u, err := m.use(i)
		if err != nil {
			return nil, err
		}
		same := func(o use) bool { return o.spec.PersistentVolume != nil && o.spec.Name() == u.spec.Name() }
		if j := slices.IndexFunc(all, same); j >= 0 && u.spec.PersistentVolume != nil {
			return nil, m.inPod(i).refuse(field.Invalid(volumePath(i), v.Name,
				fmt.Sprintf("leads to PersistentVolume %s, as volume %s does already", u.spec.Name(), all[j].name)))
		}
		if u.args, err = util.MounterArgs(pod, &v); err != nil {
			return nil, m.inPod(i).refuse(err)
		}
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, m.inPod(0).refuse(field.Required(field.NewPath("spec", "volumes"), "nothing to mount"))
	}
	return all, nil
}

func (m *manifest) inPod(i int) position { return position{m.pods[0].where, volumePath(i)} }

func (m *manifest) use(i int) (use, error) {
	v := &m.pods[0].object.Spec.Volumes[i]
	c, readOnly, err := m.claimOf(i)
	if err != nil {
		return use{}, err
	}
	if c.PersistentVolumeClaim == nil {
		return use{name: v.Name, spec: volume.NewSpecFromVolume(v), at: m.inPod(i)}, nil
	}
	pv, err := m.volumeOf(c)
	if err == nil {
		err = c.fits(pv.object)
	}
	if err != nil {
		return use{}, err
	}
	spec := volume.NewSpecFromPersistentVolume(pv.object, readOnly)
	return use{name: v.Name, spec: spec, at: position{where: pv.where}}, nil
}

// claimOf returns the claim behind a volume of the pod, or none.
func (m *manifest) claimOf(i int) (c claim, readOnly bool, err error) {
	pod := m.pods[0].object
	source := pod.Spec.Volumes[i].VolumeSource
	switch {
	case source.PersistentVolumeClaim != nil && source.Ephemeral != nil:
		at := m.inPod(i)
		return c, false, at.refuse(field.Forbidden(at.path.Child("ephemeral"), "a volume has one source"))
	case source.PersistentVolumeClaim != nil:
		c, err = m.claimByName(i, source.PersistentVolumeClaim.ClaimName)
		return c, source.PersistentVolumeClaim.ReadOnly, err
	case source.Ephemeral != nil:
		c, err = m.claimFromTemplate(i, source.Ephemeral.VolumeClaimTemplate)
	}
	return c, false, err
}

func (m *manifest) claimByName(i int, name string) (claim, error) {
	namespace := namespaceOf(m.pods[0].object)
	var elsewhere string
	for _, d := range m.claims {
		if d.object.Name == name && namespaceOf(d.object) == namespace {
			return claim{position{where: d.where}, d.object}, nil
		}
		if d.object.Name == name {
			elsewhere = ", only in " + namespaceOf(d.object)
		}
	}
	at := m.inPod(i)
	return claim{}, at.refuse(field.Invalid(at.path.Child("persistentVolumeClaim", "claimName"), short(name),
		fmt.Sprintf("no such PersistentVolumeClaim in namespace %s%s", namespace, elsewhere)))
}

// claimFromTemplate makes the claim of an ephemeral volume, with the name that
// Kubernetes gives it.
func (m *manifest) claimFromTemplate(i int, template *v1.PersistentVolumeClaimTemplate) (claim, error) {
	pod, at := m.pods[0].object, m.inPod(i)
	at.path = at.path.Child("ephemeral", "volumeClaimTemplate")
	if template == nil {
		return claim{}, at.refuse(field.Required(at.path, "an ephemeral volume has a claim"))
	}
	c := &v1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: template.Spec}
	c.Namespace, c.Name = pod.Namespace, pod.Name+"-"+pod.Spec.Volumes[i].Name
	return claim{at, c}, nil
}
