package main

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"io/fs"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// Flags that several of the programs have: those of csi-lib-utils, of the log of component-base, and of klog.
const (
	standardFlags = "version kubeconfig csi-address leader-election leader-election-namespace leader-election-lease-duration " +
		"leader-election-renew-deadline leader-election-retry-period leader-election-labels kube-api-qps kube-api-burst " +
		"http-endpoint metrics-address metrics-path automaxprocs "
	logFlags = "v vmodule logging-format log-flush-frequency log-text-split-stream log-text-info-buffer-size " +
		"log-json-split-stream log-json-info-buffer-size "
	klogFlags = "v vmodule log_dir log_file log_file_max_size logtostderr alsologtostderr legacy_stderr_threshold_behavior " +
		"add_dir_header skip_headers one_output skip_log_headers stderrthreshold alsologtostderrthreshold log_backtrace_at "
)

// theirFlags are the flags of the five programs, from their sources.
var theirFlags = map[string]string{
	"external-provisioner v6.4.0": standardFlags + logFlags + "master volume-name-prefix volume-name-uuid-length retry-interval-start " +
		"retry-interval-max worker-threads cloning-protection-threads snapshot-orphan-sweep-interval capacity-threads timeout " +
		"strict-topology immediate-topology extra-create-metadata enable-pprof default-fstype kube-api-capacity-qps " +
		"kube-api-capacity-burst enable-capacity capacity-for-immediate-binding capacity-poll-interval capacity-ownerref-level " +
		"node-deployment node-deployment-immediate-binding node-deployment-base-delay node-deployment-max-delay " +
		"controller-publish-readonly prevent-volume-mode-conversion feature-gates",
	"external-attacher v4.13.0": standardFlags + logFlags + "resync timeout retry-interval-start retry-interval-max worker-threads " +
		"max-entries default-fstype reconcile-sync max-grpc-log-length feature-gates",
	"external-resizer v2.3.0": standardFlags + logFlags + "master resync-period workers extra-modify-metadata timeout resize-timeout " +
		"modify-timeout retry-interval-start retry-interval-max handle-volume-inuse-error feature-gates",
	"node-driver-registrar v2": logFlags + klogFlags + "connection-timeout timeout csi-address plugin-registration-path " +
		"kubelet-registration-path health-port http-endpoint version mode enable-pprof automaxprocs",
	"livenessprobe v2": logFlags + klogFlags + "probe-timeout csi-address health-port metrics-address http-endpoint metrics-path automaxprocs",
}

// TestTheirHelp: theirFlags of external-provisioner, external-attacher and external-resizer are the flags that these
// programs print. It needs the programs ("make sidecars").
func TestTheirHelp(t *testing.T) {
	printed := regexp.MustCompile(`(?m)^ +(?:-\w, )?--?([\w-]+)`)
	for _, program := range kubeserver.Sidecars() {
		name := strings.TrimPrefix(program.Name, "csi-")
		path, err := program.Find()
		if errors.Is(err, fs.ErrNotExist) {
			mounttest.SkipWithout(t, name, err)
		}
		require.NoError(t, err)
		help, err := exec.CommandContext(t.Context(), path, "--help").CombinedOutput()
		require.NotEmpty(t, help, err)
		var flags []string
		for _, match := range printed.FindAllSubmatch(help, -1) {
			flags = append(flags, string(match[1]))
		}
		known := strings.Fields(theirFlags["external-"+name+" "+program.Version])
		slices.Sort(known)
		slices.Sort(flags)
		require.Equal(t, known, flags, program.Name)
	}
}

// A group is the effect of a flag of the five programs on this program.
type group string

const (
	selects  group = "selects something"
	ends     group = "ends the program at once"
	ignored  group = "is ignored with a warning"
	refuses  group = "is refused"
	agreeing group = "agrees with this program"
)

// flagGroups has each flag of the five with a value other than its default.
var flagGroups = map[group]string{
	selects: "csi-address=/x kubeconfig=/k master=https://m leader-election leader-election-namespace=n leader-election-labels=a:b " +
		"leader-election-lease-duration=20s leader-election-renew-deadline=9s leader-election-retry-period=3s " +
		"http-endpoint=:1 metrics-address=:1 health-port=1 probe-timeout=3s timeout=3s resize-timeout=3s modify-timeout=3s resync=3s resync-period=3s " +
		"reconcile-sync=3s retry-interval-start=3s retry-interval-max=3s worker-threads=3 workers=3 logging-format=json " +
		"feature-gates=Topology=false volume-name-prefix=p volume-name-uuid-length=3 default-fstype=xfs extra-create-metadata strict-topology " +
		"immediate-topology=false controller-publish-readonly extra-modify-metadata enable-capacity capacity-for-immediate-binding " +
		"capacity-poll-interval=3s capacity-ownerref-level=0 kubelet-registration-path=/r plugin-registration-path=/p",
	ends: "version mode=kubelet-registration-probe",
	ignored: "kube-api-qps=3 kube-api-burst=3 kube-api-capacity-qps=3 kube-api-capacity-burst=3 " +
		"capacity-threads=3 cloning-protection-threads=3 " +
		"snapshot-orphan-sweep-interval=3s prevent-volume-mode-conversion=false node-deployment-immediate-binding=false " +
		"node-deployment-base-delay=3s node-deployment-max-delay=3s handle-volume-inuse-error max-entries=3 connection-timeout=3s " +
		"enable-pprof automaxprocs=false max-grpc-log-length=3 v=5 vmodule=a=1 log-flush-frequency=3s log-text-split-stream " +
		"log-json-split-stream log-text-info-buffer-size=3 log-json-info-buffer-size=3 logtostderr=false alsologtostderr one_output " +
		"legacy_stderr_threshold_behavior log_dir=/l log_file=/l log_file_max_size=3 stderrthreshold=3 alsologtostderrthreshold=3 " +
		"log_backtrace_at=a:1 add_dir_header skip_headers skip_log_headers",
	refuses: "node-deployment metrics-path=/other",
	agreeing: "metrics-path=/metrics node-deployment=false mode=registration prevent-volume-mode-conversion handle-volume-inuse-error=false " +
		"automaxprocs logtostderr enable-pprof=0 node-deployment-immediate-binding=true logging-format=text",
}

// groupOf returns the group of a flag with a value: it compares the options with those of a command line without the flag.
func groupOf(t *testing.T, text string) group {
	t.Helper()
	const always = "--csi-address=/s --leader-election-namespace=m"
	o, err := parseOptions(append(strings.Fields(always), "--"+text), environment, io.Discard)
	if errors.Is(err, flag.ErrHelp) {
		return ends
	}
	if err != nil {
		return refuses
	}
	warnings := o.warnings
	o.warnings = nil
	switch same := assert.ObjectsAreEqual(parse(t, always), o); {
	case !same && len(warnings) == 0:
		return selects
	case same && len(warnings) == 1:
		name, _, _ := strings.Cut(text, "=")
		require.Equal(t, "--"+name, warnings[0].flag)
		require.NotEmpty(t, warnings[0].reason)
		return ignored
	case same && len(warnings) == 0:
		return agreeing
	}
	return "selects something, with a warning"
}

// TestTheirFlags: each flag of the five programs is in one of the groups.
func TestTheirFlags(t *testing.T) {
	grouped := map[string]bool{}
	for want, flags := range flagGroups {
		for text := range strings.FieldsSeq(flags) {
			require.Equal(t, want, groupOf(t, text), text)
			name, _, _ := strings.Cut(text, "=")
			grouped[name] = true
		}
	}
	known := map[string]bool{}
	for program, flags := range theirFlags {
		for name := range strings.FieldsSeq(flags) {
			require.True(t, grouped[name], "--%s of %s is in no group", name, program)
			known[name] = true
		}
	}
	for name := range grouped {
		require.True(t, known[name], "--%s is a flag of none of the programs", name)
	}
}

// TestTheirConfiguration: flags select the configuration of the companions.
func TestTheirConfiguration(t *testing.T) {
	p, err := newProgram(parse(t, "--csi-address=/s --workers=7 --resync-period=10m --timeout=1m --resize-timeout=2m --modify-timeout=3m --reconcile-sync=4m"+
		" --controller-publish-readonly --metrics-address=:81 --leader-election-labels=a:b,c:d"), io.Discard)
	require.NoError(t, err)
	config, err := p.config(t.Context(), fake.NewClientset(), func(api.Event) {})
	require.NoError(t, err)
	require.Equal(t, 7, config.Workers)
	require.Equal(t, []time.Duration{10 * time.Minute, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute},
		[]time.Duration{config.Resync, config.Timeout, config.ExpandTimeout, config.ModifyTimeout, config.ListEvery})
	require.Equal(t, sidecar.ProvisionConfig{VolumeNamePrefix: "pvc", ReadOnlyVolumes: true}, config.Provision)
	require.Equal(t, ":81", p.listen)
	require.Equal(t, labels{"a": "b", "c": "d"}, p.leaseLabels)
	require.Equal(t, ":9808", parse(t, "--health-port=9808").listen)
	require.Empty(t, parse(t, "--health-port=0").listen)
	require.Equal(t, 3, parse(t, "--worker-threads=7 --workers=3").workers, "the last one wins")
}

// TestWarnings: the log names each flag without effect once.
func TestWarnings(t *testing.T) {
	var log bytes.Buffer
	_, err := newProgram(parse(t, "--csi-address=/s --v=5 -v 4 --kube-api-qps=50"), &log)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(log.String(), "the flag has no effect"), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "flag=--v "), log.String())
	require.Contains(t, log.String(), `level=WARN msg="the flag has no effect" flag=--kube-api-qps reason="the API server limits`)

	log.Reset()
	newLogger("json", &log).Info("text", slog.Int("n", 1))
	require.Contains(t, log.String(), `"msg":"text","n":1}`)
}

// TestTheirWrongValues: the errors say why a value is refused.
func TestTheirWrongValues(t *testing.T) {
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "--version", Prints: "sidecar"},
		testbed.CommandLine{Args: "--mode=kubelet-registration-probe --kubelet-registration-path=/r"},
		testbed.CommandLine{Args: "--node-deployment", Status: 2, Prints: "one run serves all nodes"},
		testbed.CommandLine{Args: "--metrics-path=/m", Status: 2, Prints: "must be /metrics: "},
		testbed.CommandLine{Args: "--automaxprocs=x", Status: 2, Prints: "must be true or false"},
		testbed.CommandLine{Args: "--http-endpoint=:1 --health-port=2", Status: 2, Prints: "exclude each other"},
		testbed.CommandLine{Args: "--http-endpoint=:1 --metrics-address=:1", Status: 2, Prints: "exclude each other"},
		testbed.CommandLine{Args: "--resize-timeout=-1s", Status: 2, Prints: "--resize-timeout"},
		testbed.CommandLine{Args: "--logging-format=xml", Status: 2, Prints: "must be text or json"},
		testbed.CommandLine{Args: "--leader-election-labels=a", Status: 2, Prints: "must be KEY:VALUE"},
		testbed.CommandLine{Args: "--leader-election-labels=a:-", Status: 2, Prints: "a valid label"},
		testbed.CommandLine{Args: "--master=https://[ --csi-address=/s", Status: 1, Prints: "--master: "})
}

// TestLeaseLabels: a Lease has the labels after its creation, and after a change.
func TestLeaseLabels(t *testing.T) {
	leases := labelledLeases{fake.NewClientset().CoordinationV1(), labels{"a": "b"}}.Leases("ns")
	created, err := leases.Create(t.Context(), &v1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "lease"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b"}, created.Labels)
	created.Labels = map[string]string{"other": "label"}
	updated, err := leases.Update(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "b", "other": "label"}, updated.Labels)
}
