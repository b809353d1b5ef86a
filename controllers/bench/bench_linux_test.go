package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/apicalls"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKubePods measures three pods, and pins the calls for each.
func TestKubePods(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	server := kubeserver.Start(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	var out strings.Builder
	require.NoError(t, measurePods(t.Context(), server, dir, options{pods: 3, idle: time.Second}, &out))
	t.Log(out.String())
	const calls = `  API calls for each pod: 9.00
    create serviceaccounts/token         1.00
    list configmaps                      1.00
    list persistentvolumeclaims          1.00
    list persistentvolumes               1.00
    list secrets                         1.00
    watch configmaps                     1.00
    watch persistentvolumeclaims         1.00
    watch persistentvolumes              1.00
    watch secrets                        1.00
`
	require.Equal(t, 2, strings.Count(out.String(), calls))
	require.Equal(t, 2, strings.Count(out.String(), "idle for 1s: 0 API calls, and 0 watches"))
	require.Contains(t, out.String(), "floor, at-once, 3 pods")
}

func TestMain(m *testing.M) {
	if !isProvisioner() {
		os.Exit(m.Run())
	}
}

// TestKubeProvisioners measures 20 claims, and pins the calls for each.
func TestKubeProvisioners(t *testing.T) {
	server := kubeserver.Start(t)
	var out strings.Builder
	o := provisionOptions{claims: []int{20}, delays: []time.Duration{time.Millisecond}, failures: []float64{0}, limit: time.Minute}
	require.NoError(t, measureProvisioners(t.Context(), server, o, &out))
	t.Log(out.String())
	for calls, count := range map[string]int{
		"3.00 calls each: create persistentvolumes 1.00 patch persistentvolumeclaims 2.00\n": 1,
		"1.00 calls each: create persistentvolumes 1.00\n":                                   2,
	} {
		require.Equal(t, count, strings.Count(out.String(), calls), calls)
	}
	require.Contains(t, out.String(), "floor: 8 clients store 20 volumes")
}

// TestKubeBinders binds 20 pairs, and pins the calls for each.
func TestKubeBinders(t *testing.T) {
	server := kubeserver.Start(t)
	var out strings.Builder
	require.NoError(t, measureBinders(t.Context(), server, bindOptions{pairs: []int{20}, provisioned: []int{20}, bound: []int{30}, idle: time.Second, limit: time.Minute}, &out))
	t.Log(out.String())
	require.Contains(t, out.String(), "0 conflicts; 4.00 calls each: patch persistentvolumeclaims 1.00 patch persistentvolumeclaims/status 1.00"+
		" patch persistentvolumes 1.00 patch persistentvolumes/status 1.00\n")
	require.Contains(t, out.String(), "floor")
	require.Contains(t, out.String(), "0 conflicts; 4.00 calls each: patch persistentvolumeclaims 2.00 patch persistentvolumeclaims/status 1.00"+
		" patch persistentvolumes/status 1.00\n", "the request of the provisioner, and no reference")
	require.Contains(t, out.String(), " 4 calls beside lists and watches")
}

// TestUnwatched: a list is complete with a watch of the same objects.
func TestUnwatched(t *testing.T) {
	list := apicalls.Call{Verb: "list", Resource: "secrets", Namespace: "ns", Name: "metadata.name=a", Code: http.StatusOK}
	watch := list
	watch.Verb = "watch"
	other := watch
	other.Name = "metadata.name=b"
	kind := watch
	kind.Resource = "configmaps"
	require.Empty(t, unwatched(nil))
	require.Empty(t, unwatched([]apicalls.Call{watch, other, {Verb: "create", Resource: "serviceaccounts/token"}}))
	require.Equal(t, []apicalls.Call{list}, unwatched([]apicalls.Call{list, list, other, kind})[:1])
	require.Empty(t, unwatched([]apicalls.Call{list, other, watch}))
}

// TestRepetitions: a repeated call is an error, also one that failed the first time, and a second
// token for a pod.
func TestRepetitions(t *testing.T) {
	list := apicalls.Call{Verb: "list", Resource: "secrets", Namespace: "ns", Name: "metadata.name=a"}
	other, failed := list, list
	other.Name, failed.Code = "metadata.name=b", http.StatusTooManyRequests
	token := apicalls.Call{Verb: "create", Resource: "serviceaccounts/token", Namespace: "ns", Name: "default"}
	require.NoError(t, checkRepetitions([]apicalls.Call{list, other, token, token}, 2))
	require.ErrorContains(t, checkRepetitions([]apicalls.Call{failed, list}, 2), "list secrets ns/metadata.name=a 2 times for 2 pods")
	require.ErrorContains(t, checkRepetitions([]apicalls.Call{token, token, token}, 2), "create serviceaccounts/token ns/default 3 times")
}

// TestReaction measures a small cluster.
func TestReaction(t *testing.T) {
	var out strings.Builder
	require.NoError(t, measureReaction(t.Context(), attachOptions{nodes: 5, pods: 50, attached: 20, bound: 10, every: time.Millisecond}, &out))
	t.Log(out.String())
	require.Contains(t, out.String(), "10 pods bound, one every 1ms: attach called after p50 ")
	require.Contains(t, out.String(), "10 pods bound, all at once")
}

// TestMemory: the memory of an agent does not grow with the pods of other nodes.
func TestMemory(t *testing.T) {
	testbed.RealTime(t)
	const own, few, many = 3, 100, 3000
	var out strings.Builder
	small, err := measureMemory(t.Context(), memoryCluster{own: own, pods: few, nodes: 50}, &out)
	require.NoError(t, err)
	large, err := measureMemory(t.Context(), memoryCluster{own: own, pods: many, nodes: 50}, &out)
	require.NoError(t, err)
	t.Log(out.String())
	require.Contains(t, out.String(), "of a node with 3 pods, 100 pods and 50 nodes")
	require.Contains(t, out.String(), "informer of all 3000 pods")
	// One pod takes more than a KiB.
	require.Less(t, large-small, int64(many-few)<<10/4)
}
