package csi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// A transcript is a case of TestTranscripts: a driver, its CSIDriver object, a volume, and a script of
// steps with the calls that the plugin makes of the driver in each step.
type transcript struct {
	name string
	// driver lists the capabilities of the node service: stage, stats, condition, expand, modes, group.
	driver string
	// object lists properties of the CSIDriver object; empty: the driver has none. See
	// transcriptObject.
	object string
	// volume lists properties of the volume, see transcriptVolume. Empty: a persistent volume of the
	// mode ReadWriteOnce with the file system ext4.
	volume string
	// publishContext is that of the attachment, as key=value; "none" is an empty one. Empty: the
	// plugin has no Attachments.
	publishContext string
	// script has a line for each step, with the kind of its error after a colon, and below each
	// step its calls, indented. Long texts are abbreviated, see transcriptTexts.
	script string
}

// transcriptTexts are the abbreviations in scripts. ROOT is the root of the host.
var transcriptTexts = [][2]string{
	// The hash is the SHA-256 sum of "v", the handle of the volume.
	{"ROOT/plugins/kubernetes.io/csi/d.example.com/4c94485e0c21ae6c41ce1dfe7b6bfaceea5ab68e40a2476f50208e526f506080/globalmount", "STAGING"},
	{"ROOT/pods/uid-a/volumes/kubernetes.io~csi/pv/mount", "TARGET-A"},
	{"ROOT/pods/uid-b/volumes/kubernetes.io~csi/pv/mount", "TARGET-B"},
	{"ROOT/plugins/kubernetes.io/csi/volumeDevices/staging/pv", "STAGING-DEVICE"},
	{"ROOT/plugins/kubernetes.io/csi/volumeDevices/publish/pv/uid-a", "DEVICE-A"},
	{"ROOT/plugins/kubernetes.io/csi/volumeDevices/publish/pv/uid-b", "DEVICE-B"},
	{"{mount={fs_type=ext4} access_mode={mode=SINGLE_NODE_WRITER}}", "CAPABILITY"},
	{"{block={} access_mode={mode=SINGLE_NODE_WRITER}}", "BLOCK"},
	// The handles of inline volumes: "csi-" and the SHA-256 sums of "uid-apv" and "uid-bpv".
	{"csi-a5bfdc87c0f120df20d19cf57b9a1297a178a2368bda76edd4e3647a05f864f8", "INLINE-A"},
	{"csi-94fc35b4ed250ba460e8ce826c39a09d93be2cb74f02e67b4923cb9f64d0ff61", "INLINE-B"},
	{"csi.storage.k8s.io/", "K8S/"},
}

// TestTranscripts: for each case, the calls of a driver, their order, their arguments and the kinds of
// errors are those of the script.
func TestTranscripts(t *testing.T) {
	cases := slices.Concat(argumentTranscripts, modeTranscripts(), sequenceTranscripts, codeTranscripts())
	require.GreaterOrEqual(t, len(cases), 120)
	names := map[string]bool{}
	for _, c := range cases {
		require.False(t, names[c.name], "two cases %q", c.name)
		names[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newTranscriptPlayer(t, c)
			want := strings.Split(abbreviate(strings.Trim(c.script, "\n")), "\n")
			require.Equal(t, strings.Join(want, "\n"), strings.Join(p.play(want), "\n"))
			require.Empty(t, p.driver.Violations())
		})
	}
}

// A transcriptPlayer plays the script of a transcript.
type transcriptPlayer struct {
	*testing.T
	transcript
	root         string
	kernel       *mounttest.Fake
	driver       *csitest.Driver
	spec         *volume.Spec
	objects      transcriptObjects
	registration atomic.Uint64 // 0: the driver is not registered
	plugin       *csi.Plugin
	hang         bool // the next step is given up when its call hangs
}

const transcriptDriver = "d.example.com"

func newTranscriptPlayer(t *testing.T, c transcript) *transcriptPlayer {
	root, err := os.MkdirTemp("", "csi") // the path of a socket has at most 107 bytes
	require.NoError(t, err)
	root, err = filepath.EvalSymlinks(root)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(root)) })
	p := &transcriptPlayer{
		T: t, transcript: c, root: root, kernel: mounttest.NewFake(mount.Config{})}
	p.driver = csitest.NewDriver(csitest.Config{
		Name: transcriptDriver, Capabilities: transcriptCapabilities(t, c), Mounter: p.kernel, Secrets: transcriptSecrets(c),
	})
	if c.publishContext != "" {
		p.driver.Attach("v", "node", pairs(c.publishContext))
	}
	require.NoError(t, p.driver.Listen(filepath.Join(root, "csi.sock")))
	t.Cleanup(func() { require.NoError(t, p.driver.Close()) })
	p.registration.Store(1)
	p.spec, p.objects = transcriptVolume(t, c), transcriptObjects{transcriptObject(t, c)}
	p.start()
	return p
}

// start starts the plugin with empty memory.
func (p *transcriptPlayer) start() {
	config := csi.Config{Mounter: p.kernel, Drivers: p, Objects: p.objects, Secrets: transcriptReader{}, Tokens: transcriptReader{}}
	if p.publishContext != "" {
		config.Attachments = transcriptAttachment(pairs(p.publishContext))
	}
	p.plugin = csi.New(config)
	host, err := volume.NewHost(p.Context(), p.root, volume.WithNodeName("node"))
	require.NoError(p, err)
	require.NoError(p, p.plugin.Init(p.Context(), host))
	p.Cleanup(func() { require.NoError(p, p.plugin.Close()) })
}

// Driver implements csi.Drivers.
func (p *transcriptPlayer) Driver(name string) (csi.Driver, bool) {
	registration := p.registration.Load()
	return csi.Driver{
		Name: transcriptDriver, Endpoint: filepath.Join(p.root, "csi.sock"), Registration: registration, NodeID: "node",
	}, registration != 0 && name == transcriptDriver
}

// play returns the lines of the script with the results of its steps instead of those in it.
func (p *transcriptPlayer) play(script []string) (lines []string) {
	for _, line := range script {
		if strings.HasPrefix(line, " ") || line == "" {
			continue
		}
		step, _, _ := strings.Cut(line, ": ")
		p.driver.ResetCalls()
		if err := p.do(strings.Fields(step)); err != nil {
			step += ": " + kindOf(err)
			require.NotContains(p, fmt.Sprintf("%v %+v %#v", err, err, err), "secret of ", "an error has a secret")
		}
		lines = append(lines, step)
		for _, call := range p.driver.Calls() {
			lines = append(lines, "  "+p.text(call))
		}
	}
	return lines
}

// kindOf returns the kind of an error in a script.
func kindOf(err error) string {
	if errors.Is(err, errNoDeviceMount) {
		return err.Error()
	}
	kind := strings.ToLower(fmt.Sprint(volume.KindOf(err)))
	for _, known := range []struct {
		err  error
		name string
	}{
		{volume.ErrNotSupported, "not supported"}, {volume.ErrInfeasible, "infeasible"},
		{volume.ErrFailedPrecondition, "failed precondition"}, {volume.ErrAlreadyMounted, "already mounted"},
	} {
		if errors.Is(err, known.err) {
			return known.name + ", " + kind
		}
	}
	return kind
}

// text returns a call as a line of a script: with the values of secrets, and abbreviations.
func (p *transcriptPlayer) text(call csitest.Call) string {
	secrets := map[string]string(call.Secrets)
	call.Secrets = nil
	text := string(call.Method) + " " + csitest.Text(call.Request)
	text = strings.ReplaceAll(strings.TrimSpace(text), p.root, "ROOT")
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		text += " " + name + "=" + secrets[name]
	}
	return abbreviate(text)
}

// abbreviate returns a text with the abbreviations.
func abbreviate(text string) string {
	for _, pair := range transcriptTexts {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}

// do makes a step.
func (p *transcriptPlayer) do(step []string) error {
	word := func(i int) string {
		if i < len(step) {
			return step[i]
		}
		return ""
	}
	switch verb := word(0); verb {
	case "fail", "hang", "lie", "die":
		p.inject(verb, word)
	case "clear":
		p.driver.ClearFaults()
	case "restart":
		if word(1) == "driver" {
			require.NoError(p, p.driver.Restart())
			p.registration.Add(1)
			return nil
		}
		require.NoError(p, p.plugin.Close())
		p.start()
	case "crash":
		p.driver.Crash()
	case "unregister":
		p.registration.Store(0)
	case "register":
		p.registration.Store(2)
	case "remove":
		require.NoError(p, os.Remove(p.path(word(1))))
	case "truncate":
		require.NoError(p, os.Truncate(p.path(word(1)), 0))
	default:
		return p.use(verb, word)
	}
	return nil
}

// path returns the path of a file in a script.
func (p *transcriptPlayer) path(text string) string {
	for _, pair := range transcriptTexts {
		text = strings.ReplaceAll(text, pair[1], pair[0])
	}
	return strings.ReplaceAll(text, "ROOT", p.root)
}

// inject adds a fault for one call: "fail METHOD CODE [after]", "hang METHOD [after]", "die METHOD
// [after]", "lie METHOD".
func (p *transcriptPlayer) inject(verb string, word func(int) string) {
	fault := csitest.Fault{Method: csitest.Method(word(1)), Times: 1}
	last := word(2)
	switch verb {
	case "hang":
		fault.Hang, p.hang = true, true
	case "die":
		fault.Crash = true
	case "fail":
		last = word(3)
		require.NoError(p, fault.Code.UnmarshalJSON([]byte(strconv.Quote(word(2)))), "code %s", word(2))
	case "lie":
		fault.Answer = func(m proto.Message) {
			if r, ok := m.(*csipb.NodeExpandVolumeResponse); ok {
				r.CapacityBytes = -1
			}
		}
	}
	fault.After = last == "after"
	p.driver.Inject(fault)
}

// use makes a step of the plugin.
func (p *transcriptPlayer) use(verb string, word func(int) string) error {
	ctx := p.Context()
	if p.hang {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		p.hang = false
		go p.giveUp(cancel)
		defer p.awaitEnd()
	}
	switch verb {
	case "attach":
		attacher, err := p.plugin.NewAttacher()
		require.NoError(p, err)
		_, err = attacher.WaitForAttach(ctx, p.spec, "", pod("a"))
		return err
	case "stage":
		return p.stage(ctx, word)
	case "unstage":
		unmounter, err := p.plugin.NewDeviceUnmounter()
		require.NoError(p, err)
		return unmounter.UnmountDevice(ctx, p.path("STAGING"))
	case "publish", "republish":
		return p.publish(ctx, verb == "republish", word)
	case "unpublish":
		unmounter, err := p.plugin.NewUnmounter(p.spec.Name(), uid(word(1)))
		require.NoError(p, err)
		return unmounter.TearDown(ctx)
	case "expand":
		_, err := p.plugin.NodeExpand(ctx, p.resize(word(1), word(2)))
		return err
	case "stats":
		mounter, err := p.plugin.NewMounter(p.spec, pod(word(1)))
		require.NoError(p, err)
		_, err = mounter.GetMetrics(ctx)
		return err
	}
	return p.useDevice(ctx, verb, word)
}

// giveUp ends the wait for a call when the driver has received one that hangs.
func (p *transcriptPlayer) giveUp(cancel context.CancelFunc) {
	for !slices.ContainsFunc(p.driver.Calls(), func(c csitest.Call) bool { return c.Ended.IsZero() && strings.Contains(string(c.Method), "Volume") }) {
		time.Sleep(time.Millisecond)
	}
	cancel()
}

// awaitEnd waits until the driver has ended the calls that were given up: until then it refuses other calls
// for the volume.
func (p *transcriptPlayer) awaitEnd() {
	for slices.ContainsFunc(p.driver.Calls(), func(c csitest.Call) bool { return c.Ended.IsZero() }) {
		time.Sleep(time.Millisecond)
	}
}

// stage stages the volume: "stage [group=N] [label=L]".
func (p *transcriptPlayer) stage(ctx context.Context, word func(int) string) error {
	if can, err := p.plugin.CanDeviceMount(ctx, p.spec); err != nil || !can {
		return cmp.Or(err, errNoDeviceMount)
	}
	mounter, err := p.plugin.NewDeviceMounter()
	require.NoError(p, err)
	path, err := mounter.GetDeviceMountPath(p.spec)
	require.NoError(p, err)
	require.Equal(p, p.path("STAGING"), path)
	args := options(p.T, word, 1)
	return mounter.MountDevice(ctx, p.spec, path, volume.DeviceMounterArgs{FsGroup: args.FsGroup, SELinuxLabel: args.SELinuxLabel})
}

// errNoDeviceMount is the result of a stage that no manager would call.
var errNoDeviceMount = errors.New("no device mount")

// publish publishes the volume to a pod: "publish POD [ro] [group=N] [label=L]".
func (p *transcriptPlayer) publish(ctx context.Context, remount bool, word func(int) string) error {
	mounter, err := p.plugin.NewMounter(p.spec, pod(word(1)))
	if err != nil {
		return err
	}
	args := options(p.T, word, 2)
	args.IsRemount = remount
	if p.spec.PersistentVolume != nil && strings.Contains(p.transcript.driver, "stage") {
		args.DeviceMountPath = p.path("STAGING")
	}
	return mounter.SetUp(ctx, args)
}

// options returns the arguments in the words of a step.
func options(t *testing.T, word func(int) string, from int) (args volume.MounterArgs) {
	for i := from; word(i) != ""; i++ {
		key, value, _ := strings.Cut(word(i), "=")
		switch key {
		case "ro":
			args.ReadOnly = true
		case "label":
			args.SELinuxLabel = value
		case "group":
			group, err := strconv.ParseInt(value, 10, 64)
			require.NoError(t, err)
			args.FsGroup = &group
		default:
			require.Fail(t, "unknown word", "%q", word(i))
		}
	}
	return args
}

// resize returns the arguments of an expansion that the manager passes.
func (p *transcriptPlayer) resize(size, name string) volume.NodeResizeOptions {
	target := p.path("TARGET-" + strings.ToUpper(name))
	o := volume.NodeResizeOptions{Spec: p.spec, NewSize: resource.MustParse(size), VolumePath: target, Pod: pod(name)}
	switch {
	case p.spec.IsBlock():
		o.VolumePath, o.DeviceStagePath = p.path("DEVICE-"+strings.ToUpper(name)), p.path("STAGING-DEVICE")
	case strings.Contains(p.transcript.driver, "stage"):
		o.DeviceMountPath, o.DeviceStagePath = p.path("STAGING"), p.path("STAGING")
	}
	return o
}

// useDevice makes a step of a block volume.
func (p *transcriptPlayer) useDevice(ctx context.Context, verb string, word func(int) string) error {
	name := word(1)
	if name == "" {
		name = "a"
	}
	unmapper, err := p.plugin.NewBlockVolumeUnmapper(p.spec.Name(), uid(name))
	require.NoError(p, err)
	switch verb {
	case "unmap":
		return unmapper.UnmapPodDevice(ctx)
	case "teardown":
		return unmapper.TearDownDevice(ctx, volume.BlockVolumePaths{
			StagingPath: p.path("STAGING-DEVICE"), GlobalMapPath: p.root + "/plugins/kubernetes.io/csi/volumeDevices/pv/dev",
		})
	}
	mapper, err := p.plugin.NewBlockVolumeMapper(p.spec, pod(name))
	require.NoError(p, err)
	switch verb {
	case "setup":
		_, err = mapper.SetUpDevice(ctx, volume.BlockVolumePaths{})
	case "map":
		_, err = mapper.MapPodDevice(ctx, volume.BlockVolumePaths{StagingPath: p.path("STAGING-DEVICE")})
	default:
		require.Fail(p, "unknown step", "%q", verb)
	}
	return err
}

func uid(name string) types.UID { return types.UID("uid-" + name) }

func pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-" + name, Namespace: "space", UID: uid(name)},
		Spec:       v1.PodSpec{ServiceAccountName: "account"},
	}
}

// pairs returns the map of a text such as "a=b,c=d". The text "none" is an empty map.
func pairs(text string) map[string]string {
	all := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			all[key] = value
		}
	}
	return all
}

func transcriptCapabilities(t *testing.T, c transcript) (all csitest.Capabilities) {
	known := map[string]csipb.NodeServiceCapability_RPC_Type{
		"stage": csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, "stats": csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		"condition": condition.Capability, "expand": csipb.NodeServiceCapability_RPC_EXPAND_VOLUME,
		"modes": csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER, "group": csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP,
	}
	for _, word := range strings.Fields(c.driver) {
		require.Contains(t, known, word)
		all.Node = append(all.Node, known[word])
	}
	if c.publishContext != "" {
		all.Plugin = []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE}
		all.Controller = []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME}
	}
	return all
}

// transcriptSecrets returns the secrets that each call must have, by the Secrets of the volume.
func transcriptSecrets(c transcript) map[csitest.Method]csitest.Secrets {
	all := map[csitest.Method]csitest.Secrets{}
	for _, word := range strings.Fields(c.volume) {
		switch word {
		case "stage-secret":
			all[csitest.NodeStageVolume] = csitest.Secrets{"key": "secret-of-stage"}
		case "publish-secret":
			all[csitest.NodePublishVolume] = csitest.Secrets{"key": "secret-of-publish"}
		case "expand-secret":
			all[csitest.NodeExpandVolume] = csitest.Secrets{"key": "secret-of-expand"}
		}
	}
	return all
}

// transcriptVolume returns the volume of a case. Words:
//
//	inline, block          the kind; else a persistent volume with a file system
//	RWO, ROX, RWX, RWOP    the access modes, in order
//	fs=TYPE                the type of the file system; else ext4
//	ro                     the source is read-only
//	options=a,b            mount options
//	attributes=a=b,c=d     volume attributes
//	stage-secret, publish-secret, expand-secret
func transcriptVolume(t *testing.T, c transcript) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	source := &v1.CSIPersistentVolumeSource{Driver: transcriptDriver, VolumeHandle: "v", FSType: "ext4"}
	pv.Spec.CSI = source
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := map[string]v1.PersistentVolumeAccessMode{"RWO": v1.ReadWriteOnce, "ROX": v1.ReadOnlyMany, "RWX": v1.ReadWriteMany, "RWOP": v1.ReadWriteOncePod}
	isInline, isReadOnly := false, false
	for _, word := range strings.Fields(c.volume) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "inline":
			isInline = true
		case "block":
			mode := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode, source.FSType = &mode, ""
		case "RWO", "ROX", "RWX", "RWOP":
			pv.Spec.AccessModes = append(pv.Spec.AccessModes, modes[key])
		case "fs":
			source.FSType = value
		case "ro":
			isReadOnly = true
		case "options":
			pv.Spec.MountOptions = strings.Split(value, ",")
		case "attributes":
			source.VolumeAttributes = pairs(value)
		case "stage-secret":
			source.NodeStageSecretRef = &v1.SecretReference{Namespace: "storage", Name: "stage"}
		case "publish-secret":
			source.NodePublishSecretRef = &v1.SecretReference{Namespace: "storage", Name: "publish"}
		case "expand-secret":
			source.NodeExpandSecretRef = &v1.SecretReference{Namespace: "storage", Name: "expand"}
		default:
			require.Fail(t, "unknown word", "%q", word)
		}
	}
	if !isInline {
		return volume.NewSpecFromPersistentVolume(pv, isReadOnly)
	}
	inline := &v1.CSIVolumeSource{Driver: transcriptDriver, FSType: &source.FSType, VolumeAttributes: source.VolumeAttributes}
	if isReadOnly {
		inline.ReadOnly = &isReadOnly
	}
	if source.NodePublishSecretRef != nil {
		inline.NodePublishSecretRef = &v1.LocalObjectReference{Name: "publish"}
	}
	return volume.NewSpecFromVolume(&v1.Volume{Name: "pv", VolumeSource: v1.VolumeSource{CSI: inline}})
}

// transcriptObject returns the CSIDriver object of a case, or nil. Words:
//
//	attach, no-attach, pod-info, republish, selinux
//	persistent, ephemeral    lifecycle modes
//	group=None, ...          the policy
//	tokens=a,b               audiences
func transcriptObject(t *testing.T, c transcript) *storagev1.CSIDriver {
	if c.object == "" {
		return nil
	}
	yes, no := true, false
	object := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: transcriptDriver}}
	for _, word := range strings.Fields(c.object) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "attach":
			object.Spec.AttachRequired = &yes
		case "no-attach":
			object.Spec.AttachRequired = &no
		case "pod-info":
			object.Spec.PodInfoOnMount = &yes
		case "republish":
			object.Spec.RequiresRepublish = &yes
		case "selinux":
			object.Spec.SELinuxMount = &yes
		case "persistent":
			object.Spec.VolumeLifecycleModes = append(object.Spec.VolumeLifecycleModes, storagev1.VolumeLifecyclePersistent)
		case "ephemeral":
			object.Spec.VolumeLifecycleModes = append(object.Spec.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral)
		case "group":
			policy := storagev1.FSGroupPolicy(value)
			object.Spec.FSGroupPolicy = &policy
		case "tokens":
			for _, audience := range strings.Split(value, ",") {
				object.Spec.TokenRequests = append(object.Spec.TokenRequests, storagev1.TokenRequest{Audience: audience})
			}
		default:
			require.Fail(t, "unknown word", "%q", word)
		}
	}
	return object
}

// transcriptObjects has one CSIDriver object, or none.
type transcriptObjects struct{ object *storagev1.CSIDriver }

func (o transcriptObjects) GetCSIDriver(_ context.Context, name string) (*storagev1.CSIDriver, error) {
	if o.object == nil || o.object.Name != name {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}, name)
	}
	return o.object, nil
}

// transcriptReader returns Secrets, tokens and attachments.
type transcriptReader struct{}

// GetSecret implements csi.SecretGetter. The namespace of inline volumes is that of the pod.
func (transcriptReader) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	if namespace != "storage" && (namespace != "space" || name != "publish") {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, namespace+"/"+name)
	}
	return &v1.Secret{Data: map[string][]byte{"key": []byte("secret-of-" + name)}}, nil
}

// GetServiceAccountToken implements csi.TokenGetter.
func (transcriptReader) GetServiceAccountToken(_ context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error) {
	return []byte("token-" + string(pod.UID) + "-" + source.Audience), nil
}

// A transcriptAttachment is the attachment of the volume, with its publish context.
type transcriptAttachment map[string]string

func (a transcriptAttachment) WaitForAttachment(context.Context, string, string) (map[string]string, error) {
	return maps.Clone(a), nil
}
func (transcriptAttachment) IsAttached(string, string) (attached, known bool) { return true, true }
func (transcriptAttachment) ReleaseAttachment(string, string)                 {}
