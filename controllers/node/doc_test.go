package node_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/client-go/kubernetes"
)

var _ = []any{runSource, runAttacher}

// runSource is the first code in the package documentation.
func runSource(ctx context.Context, clientset kubernetes.Interface, host volume.VolumeHost, mounter mount.Interface) error {
	source, err := node.NewSource(node.Config{Cluster: kubeclient.New(clientset), Node: "node-1"})
	if err != nil {
		return err
	}
	status, err := node.NewClaimStatus(node.ClaimStatusConfig{Source: source})
	if err != nil {
		return err
	}
	files := content.Config{
		Mounter: mounter, ConfigMaps: source, Secrets: source, Tokens: source, TrustBundles: source, Node: source,
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, content.NewConfigMap(files), content.NewSecret(files))
	if err != nil {
		return err
	}
	m, err := manager.New(manager.Config{
		Plugins: plugins, Mounter: mounter, Pods: source, Claims: source,
		ControllerExpands: true, Expansions: status.Report,
	})
	if err != nil {
		return err
	}
	defer source.SubscribeContent(m.MarkRemountRequired)()
	go source.Run(ctx)
	go status.Run(ctx)
	return m.Run(ctx)
}

// runAttacher is the code in the section Attaching.
func runAttacher(ctx context.Context, source *node.Source, config manager.Config) error {
	attacher, err := node.NewAttacher(node.AttacherConfig{Source: source})
	if err != nil {
		return err
	}
	config.Attacher, config.ReportFirst = attacher, true
	m, err := manager.New(config)
	if err != nil {
		return err
	}
	go source.Run(ctx)
	go attacher.Run(ctx, m)
	return m.Run(ctx)
}

// TestDocumentedCode: the code in the package documentation is the code above, which compiles.
func TestDocumentedCode(t *testing.T) {
	compiled, err := os.ReadFile("doc_test.go")
	require.NoError(t, err)
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var blocks []string
	block := ""
	for line := range strings.Lines(string(text)) {
		if code, ok := strings.CutPrefix(line, "//\t"); ok {
			block += "\t" + code
			continue
		}
		if strings.Contains(block, ":=") {
			blocks = append(blocks, block)
		}
		block = ""
	}
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		require.Contains(t, string(compiled), " error {\n"+block+"}\n")
	}
}
