package content

import (
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// mountFiles reports which mounts of a pod have a file as their source. All other mounts
// have a directory, as in the kubelet.
type mountFiles struct {
	volumes map[string]*v1.Volume
	names   map[string]fileNames // by volume, computed on demand
}

func newMountFiles(pod *v1.Pod) mountFiles {
	f := mountFiles{map[string]*v1.Volume{}, map[string]fileNames{}}
	for i := range pod.Spec.Volumes {
		f.volumes[pod.Spec.Volumes[i].Name] = &pod.Spec.Volumes[i]
	}
	return f
}

func (f mountFiles) isFile(mount v1.VolumeMount) bool {
	v := f.volumes[mount.Name]
	switch {
	case v == nil:
		return false
	case mount.SubPath == "":
		return mount.SubPathExpr == "" && v.HostPath != nil && isFileType(v.HostPath.Type)
	}
	names, known := f.names[v.Name]
	if !known {
		names = fileNamesOf(v)
		f.names[v.Name] = names
	}
	return names.has(path.Clean(mount.SubPath))
}

func isFileType(t *v1.HostPathType) bool {
	return t != nil && slices.Contains([]v1.HostPathType{
		v1.HostPathFile, v1.HostPathFileOrCreate, v1.HostPathSocket, v1.HostPathCharDev, v1.HostPathBlockDev,
	}, *t)
}

// fileNames are the names of the files of a volume.
type fileNames struct {
	named  map[string]bool
	allTop bool // every name without a slash is a file
}

func (n fileNames) has(name string) bool {
	return n.named[name] || n.allTop && !strings.Contains(name, "/")
}

func (n fileNames) add(name string) {
	if name != "" {
		n.named[path.Clean(name)] = true
	}
}

func fileNamesOf(v *v1.Volume) fileNames {
	n := fileNames{named: map[string]bool{}}
	for _, k := range kinds {
		if source := k.source(v); source != nil {
			for _, s := range source.Sources {
				n.addSource(s)
			}
		}
	}
	return n
}

// addSource adds the files of a source.
func (n *fileNames) addSource(s v1.VolumeProjection) {
	switch {
	case s.ConfigMap != nil:
		n.addObject(s.ConfigMap.Items)
		return
	case s.Secret != nil:
		n.addObject(s.Secret.Items)
		return
	case s.DownwardAPI != nil:
		for _, item := range s.DownwardAPI.Items {
			n.add(item.Path)
		}
		return
	case s.ServiceAccountToken != nil:
		n.add(s.ServiceAccountToken.Path)
		return
	case s.ClusterTrustBundle != nil:
		n.add(s.ClusterTrustBundle.Path)
		return
	}
	if certificate, err := podCertificate(s); err == nil && certificate != nil {
		for _, name := range certificate.paths() {
			n.add(name)
		}
	}
}

// addObject adds the files of a ConfigMap or Secret: the items, or all its keys.
func (n *fileNames) addObject(items []v1.KeyToPath) {
	n.allTop = n.allTop || len(items) == 0
	for _, item := range items {
		n.add(item.Path)
	}
}
