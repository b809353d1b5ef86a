package manifests

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Volume is a volume of a pod with its specification, which a claim may lead to.
type Volume struct {
	Name  string // in the pod
	Claim string // the name of its claim, or ""
	Spec  *volume.Spec

	source position // of the field or document that names the kind of volume
}

// Volumes returns the volumes of the pod, in their order, for a program that sets up the
// volumes of one pod without a control plane; a [Source] does the same for package manager.
// Claims, also those of ephemeral volumes, are bound as the package's documentation says; a
// volume must have the mode and the access modes of its claim. Pod is one of the documents.
//
// The error is a [Problem] that names the document, and wraps a *field.Error.
func Volumes(pod Document, documents []Document) ([]Volume, error) {
	if err := checkUnique(documents); err != nil {
		return nil, err
	}
	object, ok := pod.Object.(*v1.Pod)
	if !ok {
		return nil, pod.Problem(field.NotSupported(field.NewPath("kind"), fmt.Sprintf("%T", pod.Object), []string{"Pod"}))
	}
	r := resolver{pod: object, at: pod, documents: documents}
	var all []Volume
	for i := range object.Spec.Volumes {
		v, err := r.resolveVolume(i)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, r.checkClaims(all)
}

// checkUnique returns an error if two documents have the same kind and name.
func checkUnique(documents []Document) error {
	seen := map[string]bool{}
	for _, d := range documents {
		if d.Object == nil {
			return d.Problem(field.Required(field.NewPath("kind"), "a document holds an object"))
		}
		name := fmt.Sprintf("%T/%s", d.Object, nameOf(d.Object))
		if seen[name] {
			return d.Problem(field.Duplicate(metadataPath.Child("name"), d.Object.GetName()))
		}
		seen[name] = true
	}
	return nil
}

// A position is a field of a document; without a path it is the whole document.
type position struct {
	Document
	path *field.Path
}

// A resolver finds the specifications of one pod's volumes.
type resolver struct {
	pod       *v1.Pod
	at        Document
	documents []Document
}

// A claim is a document, or a template in the pod.
type claim struct {
	position
	*v1.PersistentVolumeClaim
}

func (c claim) String() string { return c.GetNamespace() + "/" + c.GetName() }

// field returns the path of a field of the claim's specification.
func (c claim) field(name string) *field.Path { return c.path.Child("spec", name) }

// volumePosition returns the position of the volume with index i in the pod's specification.
func (r resolver) volumePosition(i int) position {
	return position{r.at, field.NewPath("spec", "volumes").Index(i)}
}

func (r resolver) resolveVolume(i int) (Volume, error) {
	v := &r.pod.Spec.Volumes[i]
	c, readOnly, err := r.claimOf(i)
	if err != nil {
		return Volume{}, err
	}
	if c.PersistentVolumeClaim == nil {
		return Volume{Name: v.Name, Spec: volume.NewSpecFromVolume(v), source: r.volumePosition(i)}, nil
	}
	d, err := r.volumeOf(c)
	if err != nil {
		return Volume{}, err
	}
	pv := d.Object.(*v1.PersistentVolume)
	spec := volume.NewSpecFromPersistentVolume(pv, readOnly)
	return Volume{Name: v.Name, Claim: c.GetName(), Spec: spec, source: position{Document: d}}, c.checkVolume(pv)
}

// checkClaims returns an error if two claims lead to one volume: their directories would be
// the same.
func (r resolver) checkClaims(all []Volume) error {
	for i, v := range all {
		for _, before := range all[:i] {
			if v.Claim != "" && before.Claim != "" && v.Claim != before.Claim && v.Spec.Name() == before.Spec.Name() {
				return r.at.Problem(field.Invalid(r.volumePosition(i).path, v.Name,
					fmt.Sprintf("leads to PersistentVolume %s, as volume %s does already", v.Spec.Name(), before.Name)))
			}
		}
	}
	return nil
}

// claimOf returns the claim of a volume of the pod, or the zero claim.
func (r resolver) claimOf(i int) (c claim, readOnly bool, err error) {
	source := r.pod.Spec.Volumes[i].VolumeSource
	switch {
	case source.PersistentVolumeClaim != nil:
		c, err = r.claimByName(i, source.PersistentVolumeClaim.ClaimName)
		return c, source.PersistentVolumeClaim.ReadOnly, err
	case source.Ephemeral != nil:
		at := r.volumePosition(i)
		at.path = at.path.Child("ephemeral", "volumeClaimTemplate")
		if source.Ephemeral.VolumeClaimTemplate == nil { // Parse refuses such a pod
			return c, false, at.Problem(field.Required(at.path, "an ephemeral volume has a claim"))
		}
		c = claim{at, claimFromTemplate(r.pod, &r.pod.Spec.Volumes[i])}
	}
	return c, false, nil
}

func (r resolver) claimByName(i int, name string) (claim, error) {
	var elsewhere string
	for _, d := range r.documents {
		object, ok := d.Object.(*v1.PersistentVolumeClaim)
		switch {
		case !ok || object.Name != name:
		case object.Namespace == r.pod.Namespace:
			return claim{position{Document: d}, object}, nil
		default:
			elsewhere = ", only in " + object.Namespace
		}
	}
	at := r.volumePosition(i).path.Child("persistentVolumeClaim", "claimName")
	return claim{}, r.at.Problem(field.Invalid(at, brief.Name(name),
		fmt.Sprintf("no such PersistentVolumeClaim in namespace %s%s", r.pod.Namespace, elsewhere)))
}

// claimFromTemplate returns the claim of an ephemeral volume, under the name that Kubernetes
// gives it.
func claimFromTemplate(pod *v1.Pod, v *v1.Volume) *v1.PersistentVolumeClaim {
	template := v.Ephemeral.VolumeClaimTemplate
	claim := &v1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	claim.Namespace, claim.Name = pod.Namespace, pod.Name+"-"+v.Name
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
	return claim
}

// volumeOf returns the persistent volume that the claim names, or else the only one that
// names the claim.
func (r resolver) volumeOf(c claim) (Document, error) {
	if name := c.Spec.VolumeName; name != "" {
		return r.volumeByName(c, name)
	}
	var found []Document
	var names []string
	for _, d := range r.documents {
		if pv, ok := d.Object.(*v1.PersistentVolume); ok && isRefTo(pv.Spec.ClaimRef, c.PersistentVolumeClaim) {
			found, names = append(found, d), append(names, pv.Name)
		}
	}
	path := c.field("volumeName")
	switch len(found) {
	case 0:
		return Document{}, c.Problem(field.Required(path, fmt.Sprintf("without it a PersistentVolume needs a spec.claimRef to %s", c)))
	case 1:
		return found[0], nil
	}
	return Document{}, c.Problem(field.Required(path,
		fmt.Sprintf("the spec.claimRef of several PersistentVolumes is %s: %s", c, strings.Join(names, ", "))))
}

func (r resolver) volumeByName(c claim, name string) (Document, error) {
	path := c.field("volumeName")
	i := slices.IndexFunc(r.documents, func(d Document) bool {
		pv, ok := d.Object.(*v1.PersistentVolume)
		return ok && pv.Name == name
	})
	if i < 0 {
		return Document{}, c.Problem(field.Invalid(path, brief.Name(name), "no such PersistentVolume"))
	}
	ref := r.documents[i].Object.(*v1.PersistentVolume).Spec.ClaimRef
	if ref != nil && !isRefTo(ref, c.PersistentVolumeClaim) {
		return Document{}, c.Problem(field.Invalid(path, name,
			fmt.Sprintf("this PersistentVolume has a spec.claimRef to %s, not to %s", describeRef(ref), c)))
	}
	return r.documents[i], nil
}

func describeRef(ref *v1.ObjectReference) string {
	text := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}.String()
	if ref.UID != "" {
		text += " with UID " + string(ref.UID)
	}
	return brief.Name(text)
}

// checkVolume returns an error if the volume lacks the mode or an access mode of the claim.
func (c claim) checkVolume(pv *v1.PersistentVolume) error {
	requested, offered := modeOf(c.Spec.VolumeMode), modeOf(pv.Spec.VolumeMode)
	if requested != offered {
		return c.Problem(field.Invalid(c.field("volumeMode"), brief.Name(string(requested)),
			fmt.Sprintf("PersistentVolume %s has %s", pv.Name, brief.Name(string(offered)))))
	}
	if !util.AccessModesContainedInAll(pv.Spec.AccessModes, c.Spec.AccessModes) {
		return c.Problem(field.Invalid(c.field("accessModes"), describeModes(c.Spec.AccessModes),
			fmt.Sprintf("PersistentVolume %s has %s", pv.Name, describeModes(pv.Spec.AccessModes))))
	}
	return nil
}

func modeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

func describeModes(modes []v1.PersistentVolumeAccessMode) string {
	if len(modes) == 0 {
		return "none"
	}
	var names []string
	for _, mode := range modes {
		names = append(names, string(mode))
	}
	return brief.Name(strings.Join(names, ", "))
}
