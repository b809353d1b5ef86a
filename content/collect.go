package content

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// files maps paths in the volume to files.
type files = map[string]atomicdir.File

const defaultMode = 0o644

// A collector collects the files of a volume.
type collector struct {
	Config
	pod  *v1.Pod
	args volume.MounterArgs
	mode int32 // of files without a mode of their own
	into files
}

// collect returns all files of the volume. Its errors are transient, since missing objects
// may be created later, unless a getter returns [volume.ErrNotSupported].
func (m *mounter) collect(ctx context.Context, args volume.MounterArgs) (files, error) {
	c := &collector{Config: m.plugin.config, pod: m.pod, args: args, mode: defaultMode, into: files{}}
	if m.source.DefaultMode != nil {
		c.mode = *m.source.DefaultMode
	}
	for _, source := range m.source.Sources {
		if err := context.Cause(ctx); err != nil {
			return nil, util.Transient(err)
		}
		if err := c.add(ctx, source); errors.Is(err, volume.ErrNotSupported) {
			return nil, err
		} else if err != nil {
			return nil, util.Transient(err)
		}
	}
	return c.into, nil
}

func (c *collector) add(ctx context.Context, source v1.VolumeProjection) error {
	switch {
	case source.ConfigMap != nil:
		return c.configMap(ctx, source.ConfigMap)
	case source.Secret != nil:
		return c.secret(ctx, source.Secret)
	case source.DownwardAPI != nil:
		return c.downwardAPI(ctx, source.DownwardAPI)
	case source.ServiceAccountToken != nil:
		return c.token(ctx, source.ServiceAccountToken)
	case source.ClusterTrustBundle != nil:
		return c.trustBundle(ctx, source.ClusterTrustBundle)
	}
	certificate, err := podCertificate(source)
	if err != nil || certificate == nil {
		return err
	}
	certificate.MaxExpirationSeconds = orDefault(certificate.MaxExpirationSeconds, defaultCertificateSeconds)
	return c.certificate(ctx, certificate)
}

// put adds a file, or replaces the file of that name.
func (c *collector) put(name string, data []byte, mode *int32) {
	is := fs.FileMode(c.mode)
	if mode != nil {
		is = fs.FileMode(*mode)
	}
	c.place(name, atomicdir.File{Data: data, Mode: &is})
}

// putPrivate adds a file that only the pod's user may read, if the user is known.
func (c *collector) putPrivate(name string, data []byte) {
	mode := fs.FileMode(c.mode)
	if c.args.FsUser != nil || c.args.FsGroup != nil {
		mode = 0o600
	}
	c.place(name, atomicdir.File{Data: data, Mode: &mode, UID: number(c.args.FsUser)})
}

// place adds a file and makes it readable to the pod's group, if there is one.
func (c *collector) place(name string, f atomicdir.File) {
	if c.args.FsGroup != nil {
		*f.Mode |= 0o440
	}
	c.into[path.Clean(name)] = f
}

var errNil = errors.New("the getter returned nothing")

func (c *collector) configMap(ctx context.Context, source *v1.ConfigMapProjection) error {
	object, err := c.ConfigMaps.GetConfigMap(ctx, c.pod.Namespace, source.Name)
	if err == nil && object == nil {
		err = errNil
	}
	if err != nil {
		return ignoreOptional(source.Optional, notfound.Named("configMap "+c.pod.Namespace+"/"+source.Name, err))
	}
	data := maps.Clone(object.BinaryData)
	if data == nil {
		data = map[string][]byte{}
	}
	for key, text := range object.Data {
		if _, ok := data[key]; !ok {
			data[key] = []byte(text)
		}
	}
	return c.keys("configMap "+c.pod.Namespace+"/"+source.Name, data, source.Items, source.Optional)
}

func (c *collector) secret(ctx context.Context, source *v1.SecretProjection) error {
	object, err := c.Secrets.GetSecret(ctx, c.pod.Namespace, source.Name)
	if err == nil && object == nil {
		err = errNil
	}
	if err != nil {
		return ignoreOptional(source.Optional, notfound.Named("secret "+c.pod.Namespace+"/"+source.Name, err))
	}
	return c.keys("secret "+c.pod.Namespace+"/"+source.Name, object.Data, source.Items, source.Optional)
}

// keys adds the keys that the items select, or all keys.
func (c *collector) keys(what string, data map[string][]byte, items []v1.KeyToPath, optional *bool) error {
	if len(items) == 0 {
		for _, key := range slices.Sorted(maps.Keys(data)) {
			c.put(key, data[key], nil)
		}
	}
	for _, item := range items {
		value, ok := data[item.Key]
		switch {
		case ok:
			c.put(item.Path, value, item.Mode)
		case !isTrue(optional):
			return fmt.Errorf("%s has no key %q", what, item.Key)
		}
	}
	return nil
}

func (c *collector) token(ctx context.Context, source *v1.ServiceAccountTokenProjection) error {
	token, err := c.Tokens.GetServiceAccountToken(ctx, c.pod, source)
	if err == nil && len(token) == 0 {
		err = errNil
	}
	if err != nil {
		return notfound.Named("token of service account "+c.pod.Namespace+"/"+c.pod.Spec.ServiceAccountName, err)
	}
	c.putPrivate(source.Path, token)
	return nil
}

func (c *collector) trustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) error {
	bundle, err := c.TrustBundles.GetTrustBundle(ctx, source)
	if err == nil && len(bundle) == 0 && !isTrue(source.Optional) {
		err = errNil
	}
	if err = ignoreOptional(source.Optional, err); err != nil {
		return notfound.Named(fmt.Sprintf("trust bundle for %q", source.Path), err)
	}
	c.putPrivate(source.Path, bundle)
	return nil
}

// certificate requests a certificate for the pod, and adds the files that the source names.
func (c *collector) certificate(ctx context.Context, source *PodCertificateProjection) error {
	made, err := c.Certificates.GetPodCertificate(ctx, c.pod, source)
	if err == nil && (len(made.Key) == 0 || len(made.Chain) == 0) {
		err = errNil
	}
	if err != nil {
		return fmt.Errorf("certificate of pod %s/%s: %w", c.pod.Namespace, c.pod.Name, err)
	}
	for name, data := range map[string][]byte{
		source.CredentialBundlePath: made.bundle(),
		source.KeyPath:              made.Key,
		source.CertificateChainPath: made.Chain,
	} {
		if name != "" {
			c.putPrivate(name, data)
		}
	}
	return nil
}

// ignoreOptional returns nil instead of a not-found error of an optional source.
func ignoreOptional(optional *bool, err error) error {
	if isTrue(optional) && volume.IsNotFound(err) {
		return nil
	}
	return err
}

func isTrue(p *bool) bool { return p != nil && *p }
