package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestRequests: the counters of one verb and resource are summed over codes and scopes, and those of the API server
// itself are left out.
func TestRequests(t *testing.T) {
	before, err := parseRequests(`# HELP apiserver_request_total Counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="nodes",scope="resource",subresource="status",verb="PATCH",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",resource="leases",subresource="",verb="PUT"} 5
`)
	require.NoError(t, err)
	after, err := parseRequests(`apiserver_request_total{code="200",resource="nodes",subresource="status",verb="PATCH"} 7
apiserver_request_total{code="409",resource="nodes",subresource="status",verb="PATCH"} 1
apiserver_request_total{code="201",resource="events",subresource="",verb="POST"} 1e+00
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 1
apiserver_request_total{code="200",resource="",subresource="/openapi/v3",verb="GET"} 1
apiserver_request_total{code="200",resource="",subresource="",verb="GET"} 1
`)
	require.NoError(t, err)
	require.Equal(t, requests{"PATCH nodes/status": 3, "POST events": 1}, after.since(before))
	require.Equal(t, "1.00 calls for each volume, PATCH nodes/status 0.75, POST events 0.25", after.since(before).perVolume(4))
	_, err = parseRequests(`apiserver_request_total{resource="nodes",verb="PATCH"} many` + "\n")
	require.Error(t, err)
}

// TestKubeCompanions measures how our programs attach few volumes, and pins their calls.
func TestKubeCompanions(t *testing.T) {
	if !testflag.Required("kube") {
		mounttest.SkipWithout(t, "kube", "the test starts API servers: make test-cluster")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/",
		"github.com/volumekit/volumekit/agents/cmd/controlplane", "github.com/volumekit/volumekit/agents/cmd/sidecar")
	text, err := build.CombinedOutput()
	require.NoError(t, err, "%s", text)
	var out strings.Builder
	o := options{
		ours: programs{attach: filepath.Join(dir, "controlplane"), attacher: filepath.Join(dir, "sidecar")}, theirs: programs{isLeftOut: true},
		parts: "attach", rounds: 1, nodes: 2, volumes: 40, limit: 3 * time.Minute,
	}
	require.NoError(t, run(t.Context(), o, &out))
	t.Log(out.String())
	for _, calls := range []string{
		", PATCH persistentvolumes 2.00, PATCH volumeattachments 1.00, PATCH volumeattachments/status 1.00, POST events 1.00, POST volumeattachments 1.00\n",
		", DELETE volumeattachments 1.00, GET volumeattachments 1.00,",
		"3.00 calls for each volume, PATCH persistentvolumes 1.00, PATCH volumeattachments 1.00, PATCH volumeattachments/status 1.00\n",
		"2.00 calls for each volume, GET volumeattachments 1.00, PATCH volumeattachments 1.00\n",
	} {
		require.Contains(t, out.String(), calls)
	}
}
