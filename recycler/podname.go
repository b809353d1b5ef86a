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

// What a pod of ours records.
const (
	OwnerLabel       = "recycler.volumekit.io/owner"      // [PodConfig].Owner
	VolumeUIDLabel   = "recycler.volumekit.io/volume-uid" // of the persistent volume
	VolumeAnnotation = "recycler.volumekit.io/volume"     // its name
	RunAnnotation    = "recycler.volumekit.io/run"        // a secret of one call of Recycle
)

const (
	namePrefix = "recycler-for-"
	// randomBytes are so many that nobody guesses the next name.
	randomBytes = 8
)

var noLabel = regexp.MustCompile(`[^a-z0-9]+`)

// podName returns a new name for a pod, a DNS label that tells people of the volume.
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

// labels are by which the pods of a volume are found.
func (p *Pod) labels(pv *v1.PersistentVolume) (map[string]string, error) {
	if wrong := validation.IsValidLabelValue(string(pv.UID)); len(wrong) > 0 {
		return nil, volume.Invalid(field.NewPath("spec", "persistentVolume", "metadata", "uid"), string(pv.UID), wrong[0])
	}
	return map[string]string{OwnerLabel: p.config.Owner, VolumeUIDLabel: string(pv.UID)}, nil
}

// newPod returns the pod of one run. It shares nothing with the template.
func (p *Pod) newPod(pv *v1.PersistentVolume, source v1.VolumeSource) (*v1.Pod, error) {
	labels, err := p.labels(pv)
	if err != nil {
		return nil, err
	}
	pod := p.config.Template.DeepCopy()
	pod.Namespace, pod.Name, pod.GenerateName = p.config.Namespace, podName(pv.Name), ""
	pod.UID, pod.ResourceVersion, pod.Status = "", "", v1.PodStatus{}
	pod.Labels = with(pod.Labels, labels)
	pod.Annotations = with(pod.Annotations, map[string]string{VolumeAnnotation: pv.Name, RunAnnotation: randomHex(16)})
	pod.Spec.Volumes[0].VolumeSource = *source.DeepCopy()
	setDefault(&pod.Spec.RestartPolicy, v1.RestartPolicyNever)
	pod.Spec.ActiveDeadlineSeconds = ptr(p.deadline(pv))
	return pod, nil
}

// deadline returns what the API takes for one: 1 to MaxInt32 seconds.
func (p *Pod) deadline(pv *v1.PersistentVolume) int64 {
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

func with(all, more map[string]string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range more {
		all[key] = value
	}
	return all
}

// isOld reports whether a pod was created for the volume by our owner, in this run or
// another. What it says otherwise is not to be relied on.
func isOld(pod, ours *v1.Pod) bool {
	return pod.Namespace == ours.Namespace && pod.UID != "" &&
		pod.Labels[OwnerLabel] == ours.Labels[OwnerLabel] &&
		pod.Labels[VolumeUIDLabel] == ours.Labels[VolumeUIDLabel] &&
		pod.Annotations[VolumeAnnotation] == ours.Annotations[VolumeAnnotation]
}

// isOurs reports whether a pod was created by this run, whatever became of it.
func isOurs(pod, ours *v1.Pod) bool {
	return pod != nil && pod.UID != "" && pod.Namespace == ours.Namespace && pod.Name == ours.Name &&
		pod.Annotations[RunAnnotation] == ours.Annotations[RunAnnotation]
}
