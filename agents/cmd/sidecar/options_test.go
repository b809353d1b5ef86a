package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/internal/testbed"
)

func environment(name string) string {
	return map[string]string{"NAMESPACE": "kube-system", "POD_NAME": "driver-0"}[name]
}

func parse(t *testing.T, args string) options {
	t.Helper()
	o, err := parseOptions(strings.Fields(args), environment, io.Discard)
	require.NoError(t, err)
	return o
}

// TestFlags: the flags of the five programs select the configuration.
func TestFlags(t *testing.T) {
	o := parse(t, "--csi-address=/csi/csi.sock")
	require.Equal(t, sidecar.ProvisionConfig{VolumeNamePrefix: "pvc"}, o.provision)
	require.Equal(t, 15*time.Second, o.timeout)
	require.False(t, o.election)

	o = parse(t, "--csi-address=/s --leader-election --leader-election-namespace=ns --timeout=1m --worker-threads=7 --retry-interval-start=2s"+
		" --retry-interval-max=9s --resync=10m --feature-gates=Topology=false,HonorPVReclaimPolicy=true,CrossNamespaceVolumeDataSource=false"+
		" --volume-name-prefix=vol --volume-name-uuid-length=8 --default-fstype=xfs --extra-create-metadata --strict-topology"+
		" --immediate-topology=false --enable-capacity --capacity-poll-interval=3m --capacity-for-immediate-binding --capacity-ownerref-level=0")
	require.Equal(t, sidecar.ProvisionConfig{
		VolumeNamePrefix: "vol", VolumeNameUUIDLength: 8, DefaultFSType: "xfs", ExtraCreateMetadata: true,
		StrictTopology: true, WithoutImmediateTopology: true, WithoutTopology: true,
	}, o.provision)
	require.Equal(t, sidecar.CapacityConfig{Namespace: "kube-system", PollInterval: 3 * time.Minute, ForImmediateBinding: true}, o.objects)
	require.Equal(t, "ns", o.namespace)
	require.Equal(t, []any{time.Minute, 7, 2 * time.Second, 9 * time.Second, 10 * time.Minute}, []any{o.timeout, o.workers, o.firstBackoff, o.mostPause, o.resync})
}

// TestWrongArguments: the exit status is 2, and 0 for --help.
func TestWrongArguments(t *testing.T) {
	t.Setenv("NAMESPACE", "")
	t.Setenv("POD_NAME", "")
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "--help", Prints: "csi-address"},
		testbed.CommandLine{Args: "x", Status: 2, Prints: "x"},
		testbed.CommandLine{Args: "--csi-address=", Status: 2, Prints: "csi-address"},
		testbed.CommandLine{Args: "--timeout=0s", Status: 2, Prints: "--timeout must be more than 0"},
		testbed.CommandLine{Args: "--worker-threads=0", Status: 2, Prints: "--worker-threads must be more than 0"},
		testbed.CommandLine{Args: "--volume-name-uuid-length=0", Status: 2, Prints: "--volume-name-uuid-length must be"},
		testbed.CommandLine{Args: "--capacity-ownerref-level=3", Status: 2, Prints: "must be -1, 0, 1 or 2"},
		testbed.CommandLine{Args: "--leader-election-lease-duration=5s", Status: 2, Prints: "Periods.LeaseDuration: Invalid value: \"5s\": must be more than RenewDeadline, 10s"},
		testbed.CommandLine{Args: "--enable-capacity", Status: 2, Prints: "requires the variable NAMESPACE"},
		testbed.CommandLine{Args: "--node-only --leader-election", Status: 2, Prints: "--node-only excludes"},
		testbed.CommandLine{Args: "--feature-gates=Topology", Status: 2, Prints: "NAME=true"},
		testbed.CommandLine{Args: "--feature-gates=Future=true", Status: 2, Prints: "Future is unknown"},
		testbed.CommandLine{Args: "--feature-gates=HonorPVReclaimPolicy=false", Status: 2, Prints: "is always true"},
		testbed.CommandLine{Args: "--feature-gates=CrossNamespaceVolumeDataSource=true", Status: 2, Prints: "is not supported"},
		testbed.CommandLine{Args: "--http-endpoint=:http:", Status: 1, Prints: "--http-endpoint"},
		testbed.CommandLine{Args: "--csi-address=relative --node-only", Status: 1, Prints: "must be an absolute path"},
		testbed.CommandLine{Args: "--kubeconfig=/proc/none", Status: 1, Prints: "--kubeconfig"})
}

// TestManifests: the manifests name one service account, and the program accepts their arguments.
func TestManifests(t *testing.T) {
	deployment, account := manifest.Read[*appsv1.Deployment](t, "deployment.yaml"), manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	require.Equal(t, deployment.Namespace+"/"+deployment.Spec.Template.Spec.ServiceAccountName, account.Namespace+"/"+account.Name)
	require.Equal(t, deployment.Spec.Selector.MatchLabels, deployment.Spec.Template.Labels)
	container := deployment.Spec.Template.Spec.Containers[1]
	o, err := parseOptions(append(container.Args, "--leader-election-namespace=kube-system"), environment, io.Discard)
	require.NoError(t, err)
	require.True(t, o.election)
	require.Equal(t, "/csi/csi.sock", o.address)
	require.Equal(t, []string{"NAMESPACE", "POD_NAME"}, []string{container.Env[0].Name, container.Env[1].Name})

	set := manifest.Read[*appsv1.DaemonSet](t, "daemonset.yaml")
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	o, err = parseOptions(set.Spec.Template.Spec.Containers[0].Args, environment, io.Discard)
	require.NoError(t, err)
	require.True(t, o.nodeOnly)
	require.Equal(t, set.Spec.Template.Spec.Volumes[0].HostPath.Path+"/csi.sock", o.registrationPath)
	require.Equal(t, "/registration", o.registrationDir)
}
