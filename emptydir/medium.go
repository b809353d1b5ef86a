package emptydir

import (
	"math"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A medium is the storage of a volume.
type medium struct {
	fsType string // empty: a directory on disk
	page   int64  // of hugetlbfs, in bytes
}

const (
	tmpfs     = "tmpfs"
	hugetlbfs = "hugetlbfs"
)

var mediumField = field.NewPath("spec", "volume", "emptyDir", "medium")

func parseMedium(written v1.StorageMedium, pod *v1.Pod) (medium, error) {
	switch written {
	case v1.StorageMediumDefault:
		return medium{}, nil
	case v1.StorageMediumMemory:
		return medium{fsType: tmpfs}, nil
	case v1.StorageMediumHugePages:
		page, err := pageOf(pod)
		return medium{hugetlbfs, page}, err
	}
	size, ok := strings.CutPrefix(string(written), string(v1.StorageMediumHugePagesPrefix))
	if !ok {
		return medium{}, volume.Invalid(mediumField, string(written), "must be empty, Memory, HugePages or HugePages-SIZE")
	}
	page, err := parsePage(mediumField, size)
	if err == nil && !requestsPages(pod, page) {
		err = volume.Invalid(mediumField, string(written), "no container requests huge pages of this size")
	}
	return medium{hugetlbfs, page}, err
}

// requestsPages reports whether the pod requests huge pages of a size. Without a request the pod
// may not use them.
func requestsPages(pod *v1.Pod, page int64) bool {
	for _, asked := range resourcesOf(pod) {
		for name := range asked {
			size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if n, known := pageSize(size); ok && known && n == page {
				return true
			}
		}
	}
	return false
}

// parsePage parses the size of a page: a power of two.
func parsePage(at *field.Path, written string) (int64, error) {
	if n, ok := pageSize(written); ok && n > 0 && n&(n-1) == 0 {
		return n, nil
	}
	return 0, volume.Invalid(at, written, `must be a size of huge pages, such as "2Mi"`)
}

// pageUnits are the supported units of a page's size. Exponents are not supported, as they
// could take minutes to decode.
var pageUnits = map[string]int64{"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
	"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40}

func pageSize(written string) (int64, bool) {
	unit, known := pageUnits[strings.TrimLeft(written, "0123456789")]
	number, err := strconv.ParseUint(strings.TrimRight(written, "kKMGTi"), 10, 63)
	n := int64(number)
	if !known || err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}

// pageOf returns the only size of huge pages that the containers of a pod request.
func pageOf(pod *v1.Pod) (int64, error) {
	at := field.NewPath("pod", "spec", "containers")
	var page int64
	for _, asked := range resourcesOf(pod) {
		for name := range asked {
			size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if !ok {
				continue
			}
			n, err := parsePage(at.Child("resources"), size)
			if err != nil {
				return 0, err
			}
			if page != 0 && page != n {
				return 0, field.Forbidden(at, "with huge pages of several sizes the medium must name one")
			}
			page = n
		}
	}
	if page == 0 {
		return 0, field.Required(at, "no container requests huge pages")
	}
	return page, nil
}

// resourcesOf returns the requests and limits of the pod and of all its containers.
func resourcesOf(pod *v1.Pod) []v1.ResourceList {
	var all []v1.ResourceList
	if whole := pod.Spec.Resources; whole != nil {
		all = append(all, whole.Requests, whole.Limits)
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			all = append(all, c.Resources.Requests, c.Resources.Limits)
		}
	}
	return all
}
