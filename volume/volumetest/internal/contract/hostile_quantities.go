package contract

import (
	"fmt"
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
)

// hostileQuantities returns quantities that decode at once, and whose values take minutes to
// compute.
func hostileQuantities() []resource.Quantity {
	return []resource.Quantity{
		resource.MustParse("1e99999999"), resource.MustParse("-1e99999999"), resource.MustParse("0e99999999"),
		*resource.NewScaledQuantity(1, -99999999),
	}
}

// hostileQuantitiesEverywhere puts each quantity into each field of a specification, and into
// the limits of a pod. The plugin refuses it soon, or it has no effect.
func (c *contract) hostileQuantitiesEverywhere() {
	c.makeParents(c.newMounter(c.spec()))
	accepted, plain := c.Spec(), c.pod
	for i, q := range hostileQuantities() {
		for n := range quantitiesOf(copyOf(accepted)) {
			spec := copyOf(accepted)
			field := quantitiesOf(spec)[n]
			field.set(q.DeepCopy())
			c.requireHarmlessInTime(spec, fmt.Sprintf("%s is hostile quantity %d", field.path, i))
		}
		c.pod = withLimits(plain, q)
		c.requireHarmlessInTime(copyOf(accepted), fmt.Sprintf("the pod's limits are hostile quantity %d", i))
		c.pod = plain
	}
}

func (c *contract) requireHarmlessInTime(spec *volume.Spec, what string) {
	c.Helper()
	c.requireReturns(what, func() { c.requireHarmless(spec, what) })
}

func (c *contract) requireReturns(what string, work func()) {
	c.Helper()
	succeeded, ended := false, make(chan struct{})
	go func() {
		defer close(ended)
		work()
		succeeded = true // an assertion that fails ends the goroutine
	}()
	select {
	case <-ended:
		if !succeeded {
			c.Fatalf("%s: an assertion failed", what)
		}
	case <-time.After(30 * time.Second):
		c.Fatalf("%s: the call takes as long as the number is large", what)
	}
}

// withLimits returns the pod with a container that has q as its limits.
func withLimits(pod *v1.Pod, q resource.Quantity) *v1.Pod {
	pod = pod.DeepCopy()
	limits := v1.ResourceList{v1.ResourceCPU: q, v1.ResourceMemory: q, v1.ResourceHugePagesPrefix + "2Mi": q}
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
		Name:      "hostile",
		Resources: v1.ResourceRequirements{Limits: limits, Requests: limits.DeepCopy()},
	})
	return pod
}

// A quantityField is a quantity in a specification.
type quantityField struct {
	path string
	set  func(resource.Quantity)
}

// quantitiesOf returns all quantities of a specification, also unset ones, and the storage of
// resource lists. It follows the pointers to structures that are set.
func quantitiesOf(spec *volume.Spec) []quantityField {
	var found []quantityField
	if spec.Volume != nil {
		found = findQuantities(found, "volume", reflect.ValueOf(spec.Volume).Elem())
	}
	if spec.PersistentVolume != nil {
		found = findQuantities(found, "persistentVolume", reflect.ValueOf(spec.PersistentVolume).Elem())
	}
	return found
}

func findQuantities(found []quantityField, path string, v reflect.Value) []quantityField {
	switch at := v.Addr().Interface().(type) {
	case *resource.Quantity:
		return append(found, quantityField{path, func(q resource.Quantity) { *at = q }})
	case **resource.Quantity:
		return append(found, quantityField{path, func(q resource.Quantity) { *at = &q }})
	case *v1.ResourceList:
		return append(found, quantityField{path, func(q resource.Quantity) {
			*at = v1.ResourceList{v1.ResourceStorage: q}
		}})
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			found = findQuantities(found, path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				found = findQuantities(found, path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = findQuantities(found, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	}
	return found
}
