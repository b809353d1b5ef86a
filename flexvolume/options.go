package flexvolume

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// The keys of options that are not the volume's.
const (
	keyFSType         = "kubernetes.io/fsType"
	keyReadWrite      = "kubernetes.io/readwrite"
	keyName           = "kubernetes.io/pvOrVolumeName"
	keyMountsDir      = "kubernetes.io/mountsDir"
	keyFSGroup        = "kubernetes.io/fsGroup"
	keyNewFSGroup     = "kubernetes.io/mounterArgs.FsGroup" // of newer kubelets
	keyPodName        = "kubernetes.io/pod.name"
	keyPodNamespace   = "kubernetes.io/pod.namespace"
	keyPodUID         = "kubernetes.io/pod.uid"
	keyServiceAccount = "kubernetes.io/serviceAccount.name"
	keySecret         = "kubernetes.io/secret/" // and the key of the Secret
)

// optionsOf returns the options of a volume for a call, as JSON.
func (p *Plugin) optionsOf(s source, more ...map[string]string) string {
	options := map[string]string{keyFSType: s.fsType, keyReadWrite: "rw", keyName: s.name, keyMountsDir: p.mountsDir}
	if s.readOnly {
		options[keyReadWrite] = "ro"
	}
	for _, m := range append(more, s.options) {
		maps.Copy(options, m)
	}
	text, _ := json.Marshal(options) // a map of strings is never refused
	return string(text)
}

// podOptions returns the options that describe a pod and its requirements.
func podOptions(pod *v1.Pod, args volume.MounterArgs) map[string]string {
	options := map[string]string{
		keyPodName: pod.Name, keyPodNamespace: pod.Namespace, keyPodUID: string(pod.UID), keyServiceAccount: pod.Spec.ServiceAccountName,
	}
	if group := args.FsGroup; group != nil {
		options[keyFSGroup] = strconv.FormatInt(*group, 10)
		options[keyNewFSGroup] = options[keyFSGroup]
	}
	return options
}

// secretOptions returns the options with the data of the volume's Secret, and the values to keep out of errors.
// The type of the Secret must be the driver's name. A missing or unsuitable Secret is a transient error, since Secrets are
// created and changed at any time.
func (p *Plugin) secretOptions(ctx context.Context, s source, pod *v1.Pod) (options map[string]string, values []string, err error) {
	if s.secret == nil {
		return nil, nil, nil
	}
	namespace := s.secret.Namespace
	if namespace == "" {
		namespace = pod.Namespace
	}
	object := "secret " + namespace + "/" + s.secret.Name
	if p.config.Secrets == nil {
		return nil, nil, fmt.Errorf("%s without Config.Secrets: %w", object, volume.ErrNotSupported)
	}
	secret, err := p.config.Secrets.GetSecret(ctx, namespace, s.secret.Name)
	switch {
	case err != nil:
		return nil, nil, util.Transient(notfound.Named(object, err))
	case secret == nil:
		return nil, nil, volume.AsTransient(notfound.Object(object))
	case secret.Type != v1.SecretType(s.driver):
		return nil, nil, volume.AsTransient(fmt.Errorf("%s: type %s: must be the driver's name %s", object, input.Quote(string(secret.Type)), s.driver))
	}
	options = map[string]string{}
	for key, value := range secret.Data {
		options[keySecret+key] = base64.StdEncoding.EncodeToString(value)
		values = append(values, string(value))
	}
	return options, values, nil
}
