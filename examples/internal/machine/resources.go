package machine

import (
	"fmt"
	"os"
	"runtime"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Resources returns the processors and the memory of this machine; the memory is left out
// on systems without procfs.
func Resources() v1.ResourceList {
	all := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI)}
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return all
	}
	const unit = 1024
	var size int64
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &size); err == nil {
		all[v1.ResourceMemory] = *resource.NewQuantity(size*unit, resource.BinarySI)
	}
	return all
}
