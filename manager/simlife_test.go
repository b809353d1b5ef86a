package manager

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A persistent volume has several lives: it is edited, or deleted and recreated under its name.
// The lowest bits of the number of a life are its differences from the first life; the other
// bits count how often the volume was recreated. "ad-3.9" is a life of the volume ad-3.
const (
	simOtherHandle = 1 << iota
	simOtherPlugin
	simOtherMode
	simNewUID
)

// simLifeText is the number of the life of a volume with its name.
func simLifeText(name string, number int) string {
	if needs(name, "s") { // a directory of this node has only one life
		return name
	}
	return fmt.Sprintf("%s.%d", name, number)
}

func simLifeParts(life string) (name string, number int) {
	name, text, _ := strings.Cut(life, ".")
	number, _ = strconv.Atoi(text)
	return name, number
}

// isLife reports whether the life belongs to the volume.
func isLife(life, vol string) bool {
	name, _ := simLifeParts(life)
	return name == vol
}

// simHandle returns the result of GetVolumeName.
func simHandle(life string) string {
	name, number := simLifeParts(life)
	if number&simOtherHandle != 0 {
		return name + "~"
	}
	return name
}

func simPluginOf(life string) string {
	if _, number := simLifeParts(life); number&simOtherPlugin != 0 {
		return simOther
	}
	return simName
}

// simUnique returns the unique name of a shared volume.
func simUnique(life string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName(simPluginOf(life) + "/" + simHandle(life))
}

// simUniques returns all unique names that a shared volume may have.
func simUniques(vol string) (all []v1.UniqueVolumeName) {
	for number := range simOtherMode {
		all = append(all, simUnique(simLifeText(vol, number)))
	}
	return all
}

// simNameOf returns the name in simVolumes of the volume with a unique name.
func simNameOf(unique v1.UniqueVolumeName) string {
	return strings.TrimSuffix(string(unique[strings.LastIndex(string(unique), "/")+1:]), "~")
}

// lifeNeeds reports whether a life of a volume has a trait. Unlike needs it respects the volume
// mode of the life.
func lifeNeeds(life, what string) bool {
	name, number := simLifeParts(life)
	isBlock := needs(name, "b") != (number&simOtherMode != 0)
	switch what {
	case "b":
		return isBlock
	case "d":
		return needs(name, "d") && !isBlock
	}
	return needs(name, what)
}

// needs reports whether the name of a volume has the letter of a trait: see simVolumes.
func needs(name, what string) bool {
	kind, _, _ := strings.Cut(name, "-")
	return strings.Contains(kind, what)
}

const simLifeAttribute = "life"

// simSpec returns the specification of a volume in one of its lives.
func simSpec(life string, size int64) *volume.Spec {
	name, number := simLifeParts(life)
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(fmt.Sprintf("%s.%d", name, number/simNewUID))}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{
		Driver: simPluginOf(life), VolumeHandle: simHandle(life), VolumeAttributes: map[string]string{simLifeAttribute: life},
	}
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: name, UID: types.UID(name)}
	pv.Spec.VolumeMode = simMode(life)
	if needs(name, "o") {
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	if needs(name, "x") {
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	}
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// simRecovered returns the parts of the specification that a plugin can reconstruct.
func simRecovered(life string) *volume.Spec {
	spec := simSpec(life, 0)
	spec.PersistentVolume.UID, spec.PersistentVolume.Spec.AccessModes, spec.PersistentVolume.Spec.ClaimRef = "", nil, nil
	return spec
}

func simMode(life string) *v1.PersistentVolumeMode {
	if !lifeNeeds(life, "b") {
		return nil
	}
	block := v1.PersistentVolumeBlock
	return &block
}

// simLife returns the life of the volume that a specification describes.
func simLife(spec *volume.Spec) string {
	return spec.PersistentVolume.Spec.CSI.VolumeAttributes[simLifeAttribute]
}
