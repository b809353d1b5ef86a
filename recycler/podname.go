package recycler

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"regexp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

// Labels and annotations of the recycler's pods.
const (
	OwnerLabel       = "recycler.volumekit.io/owner"      // [PodConfig].Owner
	VolumeUIDLabel   = "recycler.volumekit.io/volume-uid" // of the persistent volume
	VolumeAnnotation = "recycler.volumekit.io/volume"     // its name
	RunAnnotation    = "recycler.volumekit.io/run"        // a secret of one call of Recycle
)

const (
	namePrefix = "recycler-for-"
	// randomBytes makes the next name unpredictable.
	randomBytes = 8
)

var noLabel = regexp.MustCompile(`[^a-z0-9]+`)

// podName returns a new pod name, a DNS label that begins with the volume's name.
func podName(pv string) string {
	random := randomHex(randomBytes)
	name := noLabel.ReplaceAllString(strings.ToLower(pv), "-")
	name = name[:min(len(name), validation.DNS1123LabelMaxLength-len(namePrefix)-len(random)-1)]
	if name = strings.Trim(name, "-"); name != "" {
		name += "-"
	}
	return namePrefix + name + random
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // it never fails
	return hex.EncodeToString(b)
}

// labels returns the labels that select the pods of a volume.
func (p *Pod) labels(pv *v1.PersistentVolume) (map[string]string, error) {
	if wrong := validation.IsValidLabelValue(string(pv.UID)); len(wrong) > 0 {
		return nil, volume.Invalid(field.NewPath("spec", "persistentVolume", "metadata", "uid"), string(pv.UID), wrong[0])
	}
	return map[string]string{OwnerLabel: p.config.Owner, VolumeUIDLabel: string(pv.UID)}, nil
}

// newPod returns the pod of one run, independent of the template.
func (p *Pod) newPod(pv *v1.PersistentVolume, source v1.VolumeSource) (*v1.Pod, error) {
	labels, err := p.labels(pv)
	if err != nil {
		return nil, err
	}
	pod := p.config.Template.DeepCopy()
	pod.Namespace, pod.Name, pod.GenerateName = p.config.Namespace, podName(pv.Name), ""
	pod.UID, pod.ResourceVersion, pod.Status = "", "", v1.PodStatus{}
	pod.Labels = mergeLabels(pod.Labels, labels)
	pod.Annotations = mergeLabels(pod.Annotations, map[string]string{VolumeAnnotation: pv.Name, RunAnnotation: randomHex(16)})
	pod.Spec.Volumes[0].VolumeSource = *source.DeepCopy()
	setDefault(&pod.Spec.RestartPolicy, v1.RestartPolicyNever)
	pod.Spec.ActiveDeadlineSeconds = ptr(p.activeDeadline(pv))
	return pod, nil
}

// activeDeadline returns the activeDeadlineSeconds of the pod for a volume, limited to the
// range of the API: 1 to MaxInt32.
func (p *Pod) activeDeadline(pv *v1.PersistentVolume) int64 {
	seconds := CalculateTimeoutForVolume(seconds(p.config.MinimumTimeout), seconds(p.config.TimeoutIncrement), pv)
	return max(1, min(seconds, math.MaxInt32))
}

// seconds rounds up.
func seconds(d time.Duration) int {
	n := d / time.Second
	if d%time.Second != 0 {
		n++
	}
	return int(min(n, math.MaxInt32))
}

func mergeLabels(all, more map[string]string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// isOld reports whether a pod was created for the volume by this owner, in this run or an
// earlier one. The pod's other fields are not reliable.
func isOld(pod, ours *v1.Pod) bool {
	return pod.Namespace == ours.Namespace && pod.UID != "" &&
		pod.Labels[OwnerLabel] == ours.Labels[OwnerLabel] &&
		pod.Labels[VolumeUIDLabel] == ours.Labels[VolumeUIDLabel] &&
		pod.Annotations[VolumeAnnotation] == ours.Annotations[VolumeAnnotation]
}

// isOurs reports whether this run created a pod, in spite of later changes.
func isOurs(pod, ours *v1.Pod) bool {
	return pod != nil && pod.UID != "" && pod.Namespace == ours.Namespace && pod.Name == ours.Name &&
		pod.Annotations[RunAnnotation] == ours.Annotations[RunAnnotation]
}
