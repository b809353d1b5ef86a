// Package metrics reports how full volumes are, in Kubernetes' quantities: the numbers of
// a CSI driver's NodeGetVolumeStats.
//
//	m, err := metrics.NewMetricsStatFS("/var/lib/app/volume").GetMetrics(ctx)
//	used, free := m.Used.Value(), m.Available.Value()
//
// The names are those of k8s.io/kubernetes/pkg/volume. In contrast to that package each
// call has a context, and returns soon after its end, also if a server does not answer.
//
// On Windows the numbers of a mounted volume have no inodes, and directories and devices are not
// measured.
//
// The package links golang.org/x/sys and the quantity of apimachinery, nothing else.
// Package util/fsusage measures the same numbers and does without the quantity.
package metrics
