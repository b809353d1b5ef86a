package volumekit_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/volumekit/volumekit"

// A room is a package, or all packages that match a pattern of path.Match, with its allowed
// imports: patterns of rooms, and prefixes of packages of other modules. The standard library
// is always allowed.
type room struct {
	pattern string
	ours    []string
	others  []string
}

const (
	api          = "k8s.io/api/"
	apimachinery = "k8s.io/apimachinery/"
	quantities   = "k8s.io/apimachinery/pkg/api/resource/"
	mountUtils   = "k8s.io/mount-utils/"
	sys          = "golang.org/x/sys/"
	testify      = "github.com/stretchr/testify/"

	leaves = "util/*"
	// clientGo is a requirement of the module controllers, and of no other one.
	clientGo = "k8s.io/client-go/"
	// Requirements of the module csi.
	csiSpec  = "github.com/container-storage-interface/spec/lib/go/csi/"
	grpc     = "google.golang.org/grpc/"
	protobuf = "google.golang.org/protobuf/"
)

// house is the import table: an import that is not in it is a mistake in the code, or a change
// of the design.
var house = []room{
	{".", nil, nil},
	{"docs", nil, nil}, // only tests
	{"mount", []string{leaves, "mount/internal/*"}, []string{sys}},
	// Reads mounts one by one.
	{"mount/internal/record", []string{"mount/internal/kernel"}, []string{sys}},
	// Reads the mount table from its text, and answers questions about a table that was read.
	{"mount/internal/mountinfo", []string{"mount/internal/kernel", "mount/internal/record", "mount/internal/options", "mount/internal/text", "util/ctxend"}, nil},
	// Answers questions about the current mount table, from a cache that events keep current.
	{"mount/internal/table", []string{"mount/internal/kernel", "mount/internal/lookup", "mount/internal/mountinfo", "mount/internal/record", "util/ctxend", "util/keylock"}, []string{sys}},
	// Resolves paths in time, also on hung file systems.
	{"mount/internal/lookup", []string{"mount/internal/failure", "mount/internal/kernel", "mount/internal/mountinfo", "mount/internal/record", "mount/internal/text", "util/ctxend", "util/keylock", "util/safepath"}, []string{sys}},
	// Attaches built mounts to their targets.
	{"mount/internal/mounting", []string{"mount/internal/building", "mount/internal/table", "mount/internal/unmounting", "mount/internal/child", "mount/internal/inflight", "mount/internal/mountinfo", "mount/internal/lookup", "mount/internal/record", "mount/internal/kernel", "mount/internal/helper", "mount/internal/spec", "mount/internal/options", "mount/internal/failure", "mount/internal/text", "util/ctxend", "util/keylock"}, []string{sys}},
	// Builds mounts that are not visible yet.
	{"mount/internal/building", []string{"mount/internal/helper", "mount/internal/nfs", "mount/internal/staging", "mount/internal/mountinfo", "mount/internal/lookup", "mount/internal/record", "mount/internal/kernel", "mount/internal/spec", "mount/internal/options", "mount/internal/failure", "mount/internal/text"}, []string{sys}},
	// Runs the programs mount.TYPE.
	{"mount/internal/helper", []string{"internal/processgroup", "mount/internal/spec", "mount/internal/options", "mount/internal/failure", "mount/internal/text", "util/ctxend"}, []string{sys}},
	// Chooses address and version for mounts of NFS.
	{"mount/internal/nfs", []string{"mount/internal/spec", "mount/internal/options", "mount/internal/failure", "mount/internal/text", "util/ctxend"}, nil},
	// Provides private mounts for mounts in the making.
	{"mount/internal/staging", []string{"mount/internal/failure", "mount/internal/kernel", "util/ctxend"}, []string{sys}},
	// Describes mounts, and checks the descriptions.
	{"mount/internal/spec", []string{"mount/internal/options", "mount/internal/failure"}, nil},
	// Parses mount options.
	{"mount/internal/options", []string{"mount/internal/failure", "mount/internal/text"}, []string{sys}},
	{"mount/internal/failure", []string{"mount/internal/text"}, nil},
	{"mount/internal/text", nil, nil},
	// Removes mounts from the mount table, also of file systems that do not answer.
	{"mount/internal/unmounting", []string{
		"mount/internal/child", "mount/internal/failure", "mount/internal/inflight", "mount/internal/kernel",
		"mount/internal/lookup", "mount/internal/mountinfo", "mount/internal/record", "mount/internal/text", "util/ctxend",
		"util/keylock",
	}, []string{sys}},
	// Returns to callers in time, while a system call goes on.
	{"mount/internal/inflight", []string{"mount/internal/failure", "util/ctxend"}, nil},
	// Runs system calls that may block forever in processes of their own.
	{"mount/internal/child", []string{"mount/internal/kernel", "util/ctxend"}, []string{sys}},
	// Reads cached attributes of files and mounts: the lowest layer of mount.
	{"mount/internal/kernel", []string{"util/safepath"}, []string{sys}},
	{"mount/mountutils", []string{"mount", "disk", leaves}, []string{mountUtils}},
	{"mount/mountutils/peertest", nil, nil}, // only tests
	{"mount/mounttest", []string{"mount", "mount/internal/failure", leaves, "mount/mounttest/internal/*", "internal/tablepath", "internal/testflag"}, []string{sys}},
	{"mount/mounttest/internal/contract", []string{"mount", "internal/require"}, nil},
	{"disk", []string{"internal/processgroup", "mount", leaves}, []string{sys}},
	{"disk/disktest", []string{"disk", "mount"}, nil},
	{"volume", []string{"util/keylock", "util/ctxend"}, []string{api, apimachinery}},
	{"volume/volumetest", []string{"volume", "mount", "mount/mounttest", "util/keylock", "util/ctxend", "util/progress", "volume/volumetest/internal/contract", "internal/tablepath"}, []string{api, apimachinery}},
	{"volume/volumetest/internal/contract", []string{"volume", "mount", "mount/mounttest", "util", "util/podvolume", "internal/require", "internal/tablepath", "internal/testflag"}, []string{api, apimachinery}},
	{"local", []string{"volume", "mount", "disk", "util", leaves, "local/internal/*", "internal/recordstore"}, []string{api, apimachinery, sys}},
	// Limits the size of a directory.
	{"local/internal/projectquota", []string{"util/safepath"}, []string{sys}},
	{"content", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery}},
	{"emptydir", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"hostpath", []string{"volume", "mount", "util", leaves, "internal/bootid"}, []string{api, apimachinery, sys}},
	{"nfs", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"flexvolume", []string{"volume", "mount", "disk", "util", leaves, "internal/bootid", "internal/dirwatch", "internal/processgroup", "internal/redaction"}, []string{api, apimachinery, sys}},
	{"manager", []string{"manager/internal/*", "volume", "mount", "util", leaves, "internal/input", "internal/oneline", "internal/persistent"}, []string{api, apimachinery}},
	// Names the volumes of a node: the lowest layer of manager.
	{"manager/internal/naming", []string{"volume", "util", "util/podvolume", "internal/persistent"}, []string{api, apimachinery}},
	// Holds the actual state of the world.
	{"manager/internal/actual", []string{"manager/internal/naming", "volume", "mount", "internal/persistent"}, []string{api, apimachinery}},
	// Reads pods, claims and volumes, and does not wait for slow sources.
	{"manager/internal/reading", []string{"manager/internal/plugincall", "manager/internal/podspec", "volume"}, []string{api, apimachinery}},
	{"manager/internal/podspec", []string{"util/podvolume"}, []string{api}},
	// Resolves the volumes of pods, through claims and plugins.
	{"manager/internal/populate", []string{
		"manager/internal/ability", "manager/internal/desired", "manager/internal/naming", "manager/internal/plugincall",
		"manager/internal/podspec", "manager/internal/reading", "volume", "util", "util/podvolume", "util/quantity",
	}, []string{api, apimachinery}},
	// Holds the volumes that pods need.
	{"manager/internal/desired", []string{"manager/internal/naming", "manager/internal/podspec", "manager/internal/reading", "volume", "internal/persistent"}, []string{api, apimachinery}},
	// Calls plugins and sources, which may panic.
	{"manager/internal/plugincall", []string{"volume", "util/ctxend"}, nil},
	// Names operations, and holds those in flight.
	{"manager/internal/operation", []string{"manager/internal/naming", "internal/persistent"}, []string{api, apimachinery}},
	// Limits the operations at a time.
	{"manager/internal/lanes", []string{"manager/internal/operation"}, []string{api}},
	// Reads the mount at a path.
	{"manager/internal/mountstate", []string{"mount"}, nil},
	// Says how long a failed operation waits.
	{"manager/internal/retry", []string{"manager/internal/operation", "manager/internal/mountstate"}, nil},
	// Checks whether mounts have vanished, and says when to check which mounts.
	{"manager/internal/mountcheck", []string{"manager/internal/actual", "manager/internal/mountstate", "manager/internal/naming", "manager/internal/operation", "manager/internal/retry", "mount", "internal/persistent"}, []string{api}},
	// Describes volumes in files for a later run.
	{"manager/internal/record", []string{"manager/internal/actual", "manager/internal/naming", "volume", "internal/brief", "internal/recordstore", "util/quantity"}, []string{api, apimachinery}},
	// Reads and tidies the directories of pods.
	{"manager/internal/poddirs", []string{"manager/internal/naming", "volume"}, []string{apimachinery}},
	// Reads and writes the host's root for the manager.
	{"manager/internal/hostdisk", []string{"manager/internal/record", "manager/internal/poddirs", "mount", "volume", "util", leaves}, []string{api, apimachinery}},
	// Finds the abilities of plugins.
	{"manager/internal/ability", []string{"manager/internal/naming", "manager/internal/plugincall", "volume"}, []string{api}},
	// Runs operations.
	{"manager/internal/execution", []string{
		"manager/internal/ability", "manager/internal/actual", "manager/internal/hostdisk", "manager/internal/mountcheck",
		"manager/internal/mountstate", "manager/internal/naming", "manager/internal/operation", "manager/internal/plugincall",
		"manager/internal/record", "mount", "volume", "util", "util/podvolume", "util/progress", "util/subpath", "internal/input",
	}, []string{api, apimachinery}},
	// Asks plugins for the volumes of an earlier run.
	{"manager/internal/reconstruction", []string{"manager/internal/ability", "manager/internal/actual", "manager/internal/naming", "manager/internal/plugincall", "manager/internal/poddirs", "volume", "util/podvolume"}, []string{api}},
	// Compares the desired with the actual state.
	{"manager/internal/planning", []string{"manager/internal/actual", "manager/internal/desired", "manager/internal/naming", "manager/internal/operation", "manager/internal/retry", "internal/persistent", "volume", "util/podvolume"}, []string{api, apimachinery}},
	// Holds the calls that wait for volumes.
	{"manager/internal/waiters", nil, []string{apimachinery}},
	{"manager/manifests", []string{"manager", "volume", "mount", "util", "util/podvolume", "util/keylock", "util/ctxend", "internal/dirwatch", "internal/recordstore", "internal/yamldoc", "internal/oneline", "internal/apidefaults"}, []string{api, apimachinery, sys}},
	{"recycler", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"recycler/recyclertest", []string{"recycler", "volume"}, []string{api, apimachinery}},
	{"util", []string{"mount", "volume", leaves, "util/internal/beneath", "util/internal/intime", "util/internal/unmounting"}, []string{api, apimachinery, sys}},
	{"util/podvolume", []string{"mount", "volume", leaves, "util/internal/beneath", "util", "util/internal/intime", "util/internal/unmounting"}, []string{api, apimachinery, sys}},
	{"util/internal/intime", []string{"util/ctxend"}, nil},
	{"util/internal/unmounting", []string{"mount"}, nil},
	// Walks through directories that other processes change, by descriptor.
	{"util/internal/beneath", []string{"util/safepath", "util/ctxend"}, []string{sys}},
	{"util/internal/beneathtest", []string{"util/internal/beneath", "internal/testbed", "mount/mounttest"}, nil},
	// Waits for file systems that may not answer.
	{"util/keylock", []string{"util/ctxend"}, nil},
	{"util/safepath", []string{"util/keylock", "util/ctxend"}, []string{sys}},
	{"util/scrub", []string{"util/internal/beneath", "util/keylock", "util/ctxend", "util/progress"}, []string{sys}},
	{"util/ownership", []string{"util/internal/beneath", "util/keylock", "util/ctxend", "util/progress"}, []string{sys}},
	{"util/fsusage", []string{"util/internal/beneath", "util/keylock"}, []string{sys}},
	{"util/loop", []string{"util/keylock", "util/ctxend"}, []string{sys}},
	// Removes old sets by scrub, the only package that deletes recursively.
	{"util/atomicdir", []string{"util/scrub", "util/internal/beneath", "util/keylock", "util/ctxend"}, []string{sys}},
	{"util/subpath", []string{"util/internal/beneath", "mount", leaves}, []string{sys}},
	// Returns quantities, as drivers do; programs that need only numbers use fsusage.
	{"util/metrics", []string{"util/fsusage"}, []string{quantities, sys}},
	{"util/quantity", nil, []string{quantities}},
	{"util/progress", []string{"internal/oneline"}, nil},
	{leaves, nil, []string{sys}},
	// Serves plugins as a volume driver of Docker.
	{"docker", []string{"volume", "mount", "util", leaves, "internal/bootid", "internal/optionlist", "internal/recordstore", "internal/redaction", "internal/socketfile"}, []string{api, apimachinery, sys}},
	{"internal/yamldoc", nil, []string{apimachinery}},
	{"internal/dirwatch", nil, []string{sys}},
	{"internal/oneline", nil, nil},
	{"internal/bootid", nil, nil},
	{"internal/redaction", []string{"internal/oneline", "internal/optionlist"}, nil},
	// Runs programs that end with their contexts.
	{"internal/processgroup", []string{"util/ctxend"}, []string{sys}},
	{"internal/tasks", nil, nil},
	{"internal/metricstest", []string{"manager"}, nil},
	{"internal/brief", nil, nil},
	{"internal/optionlist", nil, nil},
	{"internal/notfound", nil, []string{apimachinery}},
	// Keeps small files in a directory, for plugins, the manager and drivers.
	{"internal/recordstore", nil, nil},
	{"internal/socketfile", []string{leaves, "internal/dirwatch", "internal/recordstore"}, []string{sys}},
	{"internal/input", nil, nil},
	{"internal/persistent", nil, nil},
	{"internal/require", nil, nil},
	{"internal/tablepath", nil, nil},
	{"internal/testflag", nil, nil},
	{"internal/apidefaults", nil, []string{api, apimachinery}},
	{"internal/neverstuck", nil, nil}, // only tests
	{"internal/publicapi", nil, []string{testify}},
	{"internal/strace", []string{"mount/mounttest"}, nil},
	{"internal/fuseserver", nil, []string{sys}},
	{"internal/testbed", []string{"mount", "mount/mounttest", "internal/fuseserver", "internal/testflag"}, []string{sys, testify}},
	{"internal/cachedir", nil, nil},
	{"internal/rootlock", nil, nil},
	{"internal/command", nil, nil},
	{"internal/debian", []string{"internal/command", "util/progress"}, nil},
	{"internal/kubeserver", []string{"internal/cachedir", "internal/debian", "internal/testflag", "mount/mounttest"}, nil},
	{"internal/apicalls", nil, nil},
	{"internal/endstates", nil, []string{testify}},
	{"internal/rightstest", []string{"internal/apicalls"}, []string{api, apimachinery, testify}},
	{"internal/dockerserver", []string{"internal/cachedir", "internal/debian", "internal/kubeserver", "internal/testflag", "mount/mounttest"}, nil},
	{"internal/dockerserver/cmd/fetchdocker", []string{"internal/dockerserver"}, nil},
	{"internal/kubeserver/nodesteps", []string{"internal/kubeserver", "mount"}, []string{api, apimachinery, testify}},
	{"internal/kubeserver/cmd/fetchkube", []string{"internal/kubeserver"}, nil},
	{"internal/kerneltest", nil, nil},
	{"internal/kerneltest/cmd/*", []string{"internal/kerneltest/*"}, nil},
	{"internal/kerneltest/nfsserver", []string{"internal/kerneltest/kernels", "internal/kerneltest/link", "mount/mounttest"}, []string{sys}},
	{"internal/kerneltest/*", []string{"internal/kerneltest/*", "internal/cachedir", "internal/command", "internal/debian"}, []string{sys}},
	// Examples are copied: they import public packages only.
	{"examples/*", []string{"*", "*/*"}, []string{""}},
	{"controllers/examples/*", []string{"*", "*/*"}, []string{""}},
	{"csi/examples/*", []string{"*", "*/*"}, []string{""}},
	{"bench", []string{"*", "*/*"}, []string{""}},
	{"controllers", nil, nil},
	{"controllers/api", nil, []string{api, apimachinery, clientGo + "tools/cache/"}},
	// An API server in memory, and its contract: only tests import them.
	{"controllers/apitest", []string{"controllers/api", "controllers/apitest/internal/*"}, []string{api, apimachinery}},
	{"controllers/apitest/internal/httpapi", []string{"controllers/api"}, []string{api, apimachinery}},
	{"controllers/apitest/internal/contract", []string{"controllers/api", "internal/require"}, []string{api, apimachinery}},
	// Finds the pods of claims.
	{"controllers/internal/claimindex", []string{"controllers/api"}, []string{api}},
	{"controllers/internal/claimstatus", nil, []string{api, apimachinery}},
	{"controllers/internal/objectpatch", nil, []string{apimachinery}},
	{"controllers/internal/sharedlist", nil, nil},
	// Parts of simulations: only tests import it.
	{"controllers/internal/attempts", []string{"controllers/api"}, []string{apimachinery}},
	{"controllers/internal/settings", []string{"controllers/api", "manager"}, []string{apimachinery}},
	{"controllers/internal/simtest", []string{"controllers/api", "controllers/apitest", "internal/testbed"}, []string{api, apimachinery, testify}},
	{"controllers/internal/denial", nil, []string{apimachinery}},
	{"controllers/internal/telemetry", []string{"controllers/api", "manager", "internal/brief", "internal/oneline"}, []string{api}},
	{"controllers/internal/panics", []string{"volume", "internal/brief"}, nil},
	{"controllers/internal/unseen", []string{"controllers/api"}, nil},
	// The shell of the controllers for claims and their volumes.
	{"controllers/internal/claimpool", []string{"controllers/api", "controllers/internal/caches", "controllers/internal/telemetry", "controllers/internal/workers"}, []string{api}},
	{"controllers/internal/caches", []string{"controllers/api", "internal/tasks"}, nil},
	{"controllers/internal/workers", []string{"controllers/internal/denial"}, []string{apimachinery, clientGo + "util/workqueue/"}},
	{"controllers/metrics", []string{"manager"}, []string{apimachinery, "github.com/prometheus/client_golang/"}},
	{"controllers/attachment", []string{"controllers/api", "controllers/internal/caches", "controllers/internal/objectpatch", "controllers/internal/panics", "controllers/internal/settings", "controllers/internal/unseen", "controllers/internal/telemetry", "controllers/internal/workers", "manager", "volume", "util/keylock", "internal/tasks"}, []string{api, apimachinery}},
	{"controllers/attach", []string{"controllers/api", "controllers/internal/caches", "controllers/internal/claimstatus", "controllers/internal/objectpatch", "controllers/internal/settings", "controllers/internal/unseen", "controllers/internal/telemetry", "controllers/internal/workers", "manager", "volume", "util", "util/keylock", "internal/tasks"}, []string{api, apimachinery}},
	{"controllers/expand", []string{"controllers/api", "controllers/internal/attempts", "controllers/internal/claimpool", "controllers/internal/claimstatus", "controllers/internal/objectpatch", "controllers/internal/panics", "controllers/internal/settings", "controllers/internal/unseen", "controllers/internal/telemetry", "controllers/internal/workers", "manager", "volume", "util/quantity"}, []string{api, apimachinery}},
	{"controllers/modify", []string{"controllers/api", "controllers/internal/attempts", "controllers/internal/claimpool", "controllers/internal/claimstatus", "controllers/internal/objectpatch", "controllers/internal/panics", "controllers/internal/settings", "controllers/internal/unseen", "controllers/internal/telemetry", "controllers/internal/workers", "manager", "volume"}, []string{api, apimachinery}},
	{"controllers/node", []string{"controllers/api", "controllers/internal/claimstatus", "controllers/internal/telemetry", "controllers/internal/workers", "manager", "volume", "util/ctxend", "util/keylock", "util/quantity", "internal/oneline"}, []string{api, apimachinery}},
	{"controllers/protect", []string{"controllers/api", "controllers/internal/caches", "controllers/internal/claimindex", "controllers/internal/objectpatch", "controllers/internal/settings", "controllers/internal/sharedlist", "controllers/internal/telemetry", "controllers/internal/unseen", "controllers/internal/workers", "manager", "internal/brief", "internal/oneline", "internal/tasks"}, []string{api, apimachinery}},
	// The plugins of the binder's program provision by package provision, whose rules against leaks exist once.
	{"controllers/bind", []string{"controllers/api", "controllers/internal/caches", "controllers/bind/internal/*", "controllers/internal/claimindex", "controllers/internal/settings", "controllers/internal/sharedlist", "controllers/internal/storageclass", "controllers/internal/unseen", "controllers/internal/telemetry", "controllers/internal/workers", "controllers/provision", "manager", "recycler", "volume", "util", "util/keylock"}, []string{api, apimachinery}},
	{"controllers/bind/internal/fit", []string{"util/quantity"}, []string{api, apimachinery}},
	{"controllers/internal/storageclass", nil, []string{api}},
	{"controllers/provision", []string{"controllers/api", "controllers/internal/caches", "controllers/internal/claimindex", "controllers/internal/denial", "controllers/internal/objectpatch", "controllers/internal/panics", "controllers/internal/settings", "controllers/internal/sharedlist", "controllers/internal/storageclass", "controllers/internal/unseen", "controllers/internal/telemetry", "controllers/internal/workers", "manager", "volume", "util", "util/progress", "util/quantity"}, []string{api, apimachinery}},
	{"controllers/kubeclient", []string{"controllers/api", "manager"}, []string{api, apimachinery, clientGo}},
	// Parts of programs beside an API server.
	{"controllers/service", []string{"internal/tasks", "util/ctxend"}, []string{api, apimachinery, clientGo, "github.com/prometheus/client_golang/"}},
	{"controllers/ctrlruntime", []string{"controllers/api", "controllers/kubeclient", "controllers/metrics"}, []string{api, apimachinery, clientGo, "github.com/go-logr/logr", "github.com/prometheus/client_golang/", "sigs.k8s.io/controller-runtime/"}},
	{"controllers/bench", []string{"*", "*/*", "controllers/bench/internal/*", "internal/apicalls"}, []string{""}},
	{"controllers/bench/internal/*", []string{"internal/apicalls"}, []string{api, apimachinery, clientGo}},
	// The plugin kubernetes.io/csi.
	{"csi", []string{"csi/internal/*", "volume", "mount", "util", leaves, "internal/bootid", "internal/oneline", "internal/redaction"}, []string{api, apimachinery, csiSpec, grpc, protobuf, sys}},
	// Connects to drivers, and calls them: the lowest layer of csi.
	{"csi/internal/connection", []string{"csi/internal/redact", "volume", leaves, "internal/oneline", "internal/redaction"}, []string{csiSpec, grpc, protobuf, sys}},
	// Finds drivers by their sockets, and registers a driver.
	{"csi/registration", []string{"csi", "csi/internal/*", "volume", leaves, "internal/dirwatch", "internal/oneline", "internal/socketfile"}, []string{api, apimachinery, csiSpec, grpc, "k8s.io/kubelet/pkg/apis/pluginregistration/", sys}},
	// Serves plugins as a driver.
	{"csi/driver", []string{"csi/internal/*", "volume", "mount", "util", leaves, "internal/bootid", "internal/oneline", "internal/recordstore", "internal/redaction", "internal/socketfile"}, []string{api, apimachinery, csiSpec, grpc, protobuf, sys}},
	// The companions of a driver, by the controllers of its cluster.
	{"csi/sidecar", []string{"controllers/api", "controllers/attachment", "controllers/expand", "controllers/modify", "controllers/provision", "csi/internal/*", "csi/registration", "manager", "volume", "util/ctxend", "util/keylock", "util/quantity", "internal/tasks"}, []string{api, apimachinery, csiSpec, grpc, protobuf}},
	// A driver in memory: only tests import it.
	{"csi/csitest", []string{"csi/internal/*", "volume", "mount", "mount/mounttest", leaves}, []string{api, apimachinery, csiSpec, grpc, protobuf, sys}},
	// Steps of tests with a real node: only tests import it.
	{"csi/csitest/kubenode", []string{"internal/kubeserver", "internal/kubeserver/nodesteps", "mount"}, []string{api, apimachinery, clientGo, csiSpec, grpc, testify}},
	{"csi/internal/redact", []string{"internal/redaction"}, []string{csiSpec, protobuf}},
	{"csi/internal/*", []string{"csi/internal/*", "volume", "mount", "util", leaves}, []string{api, apimachinery, csiSpec, grpc, protobuf, sys}},
	{"csi/bench", []string{"*", "*/*", "csi/bench/internal/*"}, []string{""}},
	{"csi/bench/internal/*", nil, []string{api, apimachinery}},
	// Programs that are installed.
	{"agents/cmd/nfs", []string{"*", "*/*", "agents/internal/*", "internal/kerneltest/*"}, []string{""}},
	{"agents/cmd/nfsdriver", []string{"*", "*/*", "agents/internal/*", "internal/kerneltest/nfsserver"}, []string{""}},
	{"agents/cmd/*", []string{"*", "*/*", "agents/internal/*"}, []string{""}},
	{"agents/internal/cli", []string{"internal/tasks", "util/progress"}, []string{sys}},
	{"agents/internal/namespace", []string{"mount", "mount/mounttest", "util"}, nil},
	{"agents/internal/screen", []string{"agents/internal/cli", "manager", "util/progress"}, []string{api, apimachinery, sys}},
	{"agents/internal/driverprogram", []string{"agents/internal/cli", "csi/driver", "csi/registration", "mount", "volume"}, []string{apimachinery, csiSpec, grpc}},
	// Parts of their tests.
	{"agents/internal/clustertest", []string{"agents/internal/cli", "agents/internal/manifest", "controllers/api", "controllers/bind", "controllers/node", "controllers/protect", "controllers/provision", "manager", "mount", "volume", "internal/apicalls", "internal/kubeserver", "internal/rightstest"}, []string{api, apimachinery, clientGo, testify}},
	{"agents/internal/manifest", nil, []string{api, apimachinery}},
	{"agents/internal/oldnode", nil, []string{api, apimachinery, clientGo}},
	{"agents/bench/companions", []string{"*", "*/*", "agents/internal/oldnode"}, []string{""}},
}

// closed are the rooms that no package imports, tests included.
var closed = []string{"examples", "bench", "internal/kerneltest/cmd", "controllers/bench", "controllers/examples", "csi/bench", "csi/examples", "agents"}

// direct are the modules that each go.mod may require directly.
var direct = map[string][]string{
	"go.mod": {
		"github.com/stretchr/testify",
		"golang.org/x/sys",
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/mount-utils",
	},
	"controllers/go.mod": {
		"github.com/prometheus/client_golang", // by controllers/metrics alone
		module,
		"k8s.io/api",
		"k8s.io/apimachinery",
		"github.com/stretchr/testify",
		"k8s.io/client-go",
	},
	"controllers/ctrlruntime/go.mod": {
		"github.com/go-logr/logr",
		"github.com/stretchr/testify",
		module,
		module + "/controllers",
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/client-go",
		"sigs.k8s.io/controller-runtime",
	},
	"csi/go.mod": {
		"github.com/container-storage-interface/spec",
		"github.com/stretchr/testify",
		module,
		module + "/controllers", // by csi/sidecar, and by tests on an API server
		"golang.org/x/sys",
		"google.golang.org/grpc",
		"google.golang.org/protobuf",
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/client-go", // by tests on an API server
		"k8s.io/kubelet",   // its registration API, by csi/registration alone
	},
	"agents/go.mod": {
		"github.com/container-storage-interface/spec",
		"github.com/stretchr/testify",
		module,
		module + "/controllers",
		module + "/csi",
		"golang.org/x/sys",
		"google.golang.org/grpc",
		"google.golang.org/protobuf",
		"k8s.io/api",
		"k8s.io/apimachinery",
		"k8s.io/client-go",
		"k8s.io/klog/v2", // client-go logs by it; for the flag -v of agents/cmd/nfsprovisioner
	},
	"mount/mountutils/peertest/go.mod": {
		module,
		"github.com/stretchr/testify",
		"golang.org/x/sys",
		"k8s.io/mount-utils",
		"k8s.io/utils",
	},
}

// outside are modules that go.work does not join: those without packages, and the tests with csi-sanity,
// which would raise the versions of all modules.
var outside = []string{"tools/go.mod", "internal/kubeserver/build/go.mod", "internal/kubeserver/buildsidecars/go.mod", "csi/sanitytest/go.mod"}

// TestWorkspaceJoinsAllModules: the import table and "go test work" hold for the modules in
// go.work.
func TestWorkspaceJoinsAllModules(t *testing.T) {
	var workspace struct{ Use []struct{ DiskPath string } }
	require.NoError(t, json.Unmarshal(run(t, "linux", "work", "edit", "-json", "go.work"), &workspace))
	var joined []string
	for _, use := range workspace.Use {
		joined = append(joined, path.Join(use.DiskPath, "go.mod"))
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(direct)), joined)

	found := []string{}
	walk(t, func(name string) {
		if path.Base(name) == "go.mod" && !slices.Contains(outside, name) {
			found = append(found, name)
		}
	})
	require.ElementsMatch(t, found, joined, "go.work has to join each module")
}

// A listed package is the description of a package by go list.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// room returns the package's path in the module.
func (p listed) room() string { return inHouse(p.ImportPath) }

func TestImportsKeepToTheTable(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, p := range list(t, goos) {
			r, ok := find(p.room())
			if !ok {
				t.Errorf("%s is a room that the import table in deps_test.go does not know: "+
					"say there what it may import", p.room())
				continue
			}
			for _, imported := range p.Imports {
				if !r.mayImport(imported) {
					t.Errorf("%s imports %s, which the import table in deps_test.go does not allow (GOOS=%s)",
						p.room(), imported, goos)
				}
			}
		}
	}
}

func TestForbiddenImportsAreReported(t *testing.T) {
	tests := []struct{ room, imported string }{
		{"mount", module + "/volume"},
		{"mount", "k8s.io/apimachinery/pkg/types"},
		{"mount", "k8s.io/apimachinery"},
		{"volume", module + "/mount"},
		{"volume", "k8s.io/apimachinery-more/pkg"},
		{"nfs", "k8s.io/mount-utils"},
		{"local", module + "/examples/podvolumes"},
		{"examples/podvolumes", module + "/internal/oneline"},
		{"csi/examples/node", module + "/csi/internal/redact"},
		{"util", "github.com/stretchr/testify/require"},
		{"util/safepath", module + "/util/scrub"},
		{"util/safepath", module},
		{"recycler", "k8s.io/client-go/util/workqueue"},
		{"manager/internal/populate", module + "/manager/internal/actual"},
		{"manager/internal/execution", module + "/manager/internal/planning"},
		{"controllers", module + "/volume"},
		{"controllers/api", "k8s.io/client-go/kubernetes"},
	}
	for _, test := range tests {
		r, ok := find(test.room)
		require.True(t, ok, test.room)
		require.False(t, r.mayImport(test.imported), "%s imports %s", test.room, test.imported)
	}
	_, ok := find("attic")
	require.False(t, ok)
}

func TestProgramsAreNotImported(t *testing.T) {
	for _, p := range list(t, "linux") {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for _, room := range closed {
				if isIn(imported, room) && !isIn(p.ImportPath, room) {
					t.Errorf("%s imports %s: programs are for running, not for importing", p.room(), imported)
				}
			}
		}
	}
}

// TestForbiddenPackagesAreNotLinked: importing the root module must not link the client libraries of Kubernetes,
// and mounting must not link Kubernetes.
func TestForbiddenPackagesAreNotLinked(t *testing.T) {
	heavy := []string{"k8s.io/client-go/", "k8s.io/kubernetes/", "google.golang.org/grpc/", "github.com/prometheus/"}
	kubernetes := []string{"k8s.io/", "sigs.k8s.io/"}
	for _, p := range list(t, "linux") {
		if matches(p.room(), "examples/*", "bench", "controllers/bench", "controllers/bench/internal/*", "controllers/examples/*", "csi/bench", "csi/examples/*", "csi/csitest/kubenode", "agents/*", "agents/cmd/*", "agents/internal/*", "agents/bench/*") {
			continue
		}
		t.Logf("%s links %d packages", p.room(), len(p.Deps))
		forbidden := heavy
		if matches(p.room(), "mount", "mount/*", "disk", "disk/*", leaves) && !matches(p.room(), "mount/mountutils", "util/podvolume") {
			forbidden = slices.Concat(heavy, kubernetes)
		}
		if matches(p.room(), "util/metrics", "util/quantity") {
			forbidden = slices.Concat(heavy, []string{api, apimachinery + "pkg/apis/", apimachinery + "pkg/util/"})
		}
		if matches(p.room(), "controllers/*", "controllers/internal/*", "controllers/apitest/internal/*") { // a program links the clientset only if it imports kubeclient
			forbidden = []string{clientGo + "kubernetes/", clientGo + "informers/", "k8s.io/kubernetes/", "google.golang.org/grpc/"}
			if !matches(p.room(), "controllers/metrics") {
				forbidden = append(forbidden, "github.com/prometheus/")
			}
		}
		if matches(p.room(), "csi", "csi/*", "csi/internal/*") {
			forbidden = []string{clientGo, "k8s.io/kubernetes/", "github.com/prometheus/"}
		}
		if matches(p.room(), "csi/sidecar") { // as the controllers
			forbidden = []string{clientGo + "kubernetes/", clientGo + "informers/", "k8s.io/kubernetes/", "github.com/prometheus/"}
		}
		if matches(p.room(), "controllers/kubeclient") {
			forbidden = []string{"k8s.io/kubernetes/", "google.golang.org/grpc/", "github.com/prometheus/"}
		}
		if matches(p.room(), "controllers/service", "controllers/ctrlruntime") { // for programs
			forbidden = []string{"k8s.io/kubernetes/", "google.golang.org/grpc/"}
		}
		for _, dep := range p.Deps {
			if hasPrefix(dep, forbidden) {
				t.Errorf("%s links %s", p.room(), dep)
			}
		}
	}
}

// TestProvisionerLinksFewPackages: a program with a provisioner links fewer than 200 packages of modules
// for it, our own included and the standard library not. A clientset is further ones.
func TestProvisionerLinksFewPackages(t *testing.T) {
	for _, p := range list(t, "linux") {
		if p.room() != "controllers/provision" {
			continue
		}
		ofModules := slices.DeleteFunc(p.Deps, func(dep string) bool {
			first, _, _ := strings.Cut(dep, "/")
			return !strings.Contains(first, ".") // the standard library
		})
		require.Less(t, len(ofModules), 200, "%s", ofModules)
		require.Greater(t, len(ofModules), 100, "the list lacks packages")
		return
	}
	t.Fatal("no package controllers/provision")
}

// TestFakesLinkNoTesting: a program may use the fakes: they must not link test packages, nor
// register the flags of the testing package.
func TestFakesLinkNoTesting(t *testing.T) {
	forTests := []string{"testing/", testify, "github.com/davecgh/", "github.com/pmezard/", "gopkg.in/yaml.v3/"}
	for _, p := range list(t, "linux") {
		if !matches(p.room(), "mount/mounttest", "disk/disktest", "volume/volumetest", "recycler/recyclertest", "examples/dropin", "controllers/apitest", "csi/csitest") {
			continue
		}
		forbidden := forTests
		if p.room() == "controllers/apitest" { // Kubernetes' strategic merge patch links the others
			forbidden = []string{"testing/", testify}
		}
		for _, dep := range p.Deps {
			if hasPrefix(dep, forbidden) {
				t.Errorf("%s links %s", p.room(), dep)
			}
		}
	}
}

// linuxFile matches the names that the go command builds for Linux alone, with or
// without an architecture.
var linuxFile = regexp.MustCompile(`_linux(_[a-z0-9]+)?(_test)?\.go$`)

func TestOnlyLinuxFilesUseItsSystemCalls(t *testing.T) {
	for _, file := range goFiles(t) {
		if linuxFile.MatchString(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			if spec.Path.Value == `"golang.org/x/sys/unix"` {
				t.Errorf("%s imports golang.org/x/sys/unix: only files for Linux may, such as *_linux.go", file)
			}
		}
	}
}

func TestDirectDependencies(t *testing.T) {
	for file, want := range direct {
		var got []string
		for _, r := range required(t, file) {
			if !r.Indirect {
				got = append(got, r.Path)
			}
		}
		require.ElementsMatch(t, want, got, "%s: a new module needs a reason; see CONTRIBUTING.md", file)
	}
}

// TestRootRequiresNoClient: a program that gets the root module downloads no client libraries.
func TestRootRequiresNoClient(t *testing.T) {
	for _, r := range required(t, "go.mod") {
		require.False(t, hasPrefix(r.Path, []string{clientGo, "k8s.io/kubernetes/", "google.golang.org/grpc/",
			"github.com/prometheus/", module + "/"}), r.Path)
	}
}

// kubernetesFloor is the required version of Kubernetes: a newer one would break the build of
// programs with the client-go of this version.
const kubernetesFloor = "v0.32.0"

func TestKubernetesFloor(t *testing.T) {
	versioned := []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/mount-utils", "k8s.io/kubelet"}
	for _, file := range []string{"go.mod", "controllers/go.mod", "controllers/ctrlruntime/go.mod", "csi/go.mod"} {
		var found int
		for _, r := range required(t, file) {
			if slices.Contains(versioned, r.Path) {
				require.Equal(t, kubernetesFloor, r.Version, "%s requires %s; see CONTRIBUTING.md", file, r.Path)
				found++
			}
		}
		require.GreaterOrEqual(t, found, 3, file)
	}
}

// A requirement is a module that a go.mod requires.
type requirement struct {
	Path, Version string
	Indirect      bool
}

func required(t *testing.T, file string) []requirement {
	t.Helper()
	var all struct{ Require []requirement }
	require.NoError(t, json.Unmarshal(run(t, "linux", "mod", "edit", "-json", file), &all))
	return all.Require
}

// find returns the table's entry for a room.
func find(name string) (room, bool) {
	i := slices.IndexFunc(house, func(r room) bool { return matches(name, r.pattern) })
	if i < 0 {
		return room{}, false
	}
	return house[i], true
}

// forAll are rooms that every other one may import: all rooms shorten errors and the values in them, and read options alike.
var forAll = []string{"internal/brief", "internal/input", "internal/notfound", "internal/optionlist"}

func (r room) mayImport(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case slices.ContainsFunc(forAll, func(room string) bool { return isIn(imported, room) }):
		return true
	case !strings.Contains(first, "."): // the standard library
		return true
	case strings.HasSuffix(r.pattern, "examples/*") && slices.Contains(strings.Split(imported, "/"), "internal"):
		return false
	case isIn(imported, "."):
		return matches(inHouse(imported), r.ours...)
	}
	return hasPrefix(imported, r.others)
}

func matches(room string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, room)
		return ok && err == nil
	})
}

func hasPrefix(imported string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(imported+"/", prefix)
	})
}

// isIn reports whether a package is a room of this module or in one.
func isIn(importPath, room string) bool {
	return strings.HasPrefix(importPath+"/", path.Join(module, room)+"/")
}

func inHouse(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// list returns the packages of all modules as built for a system.
func list(t *testing.T, goos string) []listed {
	t.Helper()
	output := json.NewDecoder(strings.NewReader(string(run(t, goos, "list", "-json", "work"))))
	var all []listed
	for {
		var p listed
		err := output.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

func run(t *testing.T, goos string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	require.NoError(t, err, "go %s", strings.Join(args, " "))
	return output
}

// goFiles returns the Go files of all modules, including those for other systems.
func goFiles(t *testing.T) (files []string) {
	t.Helper()
	walk(t, func(name string) {
		if strings.HasSuffix(name, ".go") {
			files = append(files, name)
		}
	})
	return files
}

// walk visits the files of the tree, apart from hidden directories.
func walk(t *testing.T, visit func(name string)) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && p != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir():
			visit(filepath.ToSlash(p))
		}
		return nil
	}))
}
