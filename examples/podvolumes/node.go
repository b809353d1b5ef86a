package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/volumekit/volumekit/content"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// madeUpToken is for pods that ask for a token of their service account: there is no
// cluster here that makes one.
const madeUpToken = "made-up-by-podvolumes.no-server-accepts-it"

// addNode adds what no manifest says: what this machine has, and the pod's token.
func addNode(to *content.MapGetter, pod *v1.Pod) {
	has := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)}
	if size, ok := memorySize(); ok {
		has[v1.ResourceMemory] = *resource.NewQuantity(size, resource.BinarySI)
	}
	to.SetNodeAllocatable(has)
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	to.SetToken(pod.Namespace, account, []byte(madeUpToken))
}

// memorySize is not known on systems without procfs.
func memorySize() (size int64, ok bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	const unit = 1024
	_, err = fmt.Sscanf(string(text), "MemTotal: %d kB", &size)
	return size * unit, err == nil
}
