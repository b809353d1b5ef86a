package content

import v1 "k8s.io/api/core/v1"

// The names of the plugins.
const (
	ConfigMapPluginName   = "kubernetes.io/configmap"
	SecretPluginName      = "kubernetes.io/secret"
	DownwardAPIPluginName = "kubernetes.io/downward-api"
	ProjectedPluginName   = "kubernetes.io/projected"
)

// A kind is one of the four kinds of volumes.
type kind struct {
	plugin string
	field  string // of a volume
	name   string // of the field of its source that names an object
	many   bool   // it has several sources, whose paths must differ
	memory bool   // it has a tmpfs
	// source returns the volume's source of this kind as the equivalent projected source, or
	// nil if the volume is of another kind.
	source func(v *v1.Volume) *v1.ProjectedVolumeSource
	// only returns the volume source without the sources of other kinds.
	only func(v *v1.Volume) v1.VolumeSource
	// needs reports whether the required getter is configured, and its name.
	needs func(c Config) (name string, ok bool)
}

// kinds lists all kinds.
var kinds = []kind{configMapKind, secretKind, downwardAPIKind, projectedKind}

var configMapKind = kind{
	plugin: ConfigMapPluginName,
	field:  "configMap",
	name:   "name",
	source: func(v *v1.Volume) *v1.ProjectedVolumeSource {
		if v.ConfigMap == nil {
			return nil
		}
		return project(v.ConfigMap.DefaultMode, v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
			LocalObjectReference: v.ConfigMap.LocalObjectReference,
			Items:                v.ConfigMap.Items,
			Optional:             v.ConfigMap.Optional,
		}})
	},
	only:  func(v *v1.Volume) v1.VolumeSource { return v1.VolumeSource{ConfigMap: v.ConfigMap} },
	needs: func(c Config) (string, bool) { return "ConfigMaps", c.ConfigMaps != nil },
}

var secretKind = kind{
	plugin: SecretPluginName,
	field:  "secret",
	name:   "secretName",
	memory: true,
	source: func(v *v1.Volume) *v1.ProjectedVolumeSource {
		if v.Secret == nil {
			return nil
		}
		return project(v.Secret.DefaultMode, v1.VolumeProjection{Secret: &v1.SecretProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: v.Secret.SecretName},
			Items:                v.Secret.Items,
			Optional:             v.Secret.Optional,
		}})
	},
	only:  func(v *v1.Volume) v1.VolumeSource { return v1.VolumeSource{Secret: v.Secret} },
	needs: func(c Config) (string, bool) { return "Secrets", c.Secrets != nil },
}

var downwardAPIKind = kind{
	plugin: DownwardAPIPluginName,
	field:  "downwardAPI",
	memory: true,
	source: func(v *v1.Volume) *v1.ProjectedVolumeSource {
		if v.DownwardAPI == nil {
			return nil
		}
		return project(v.DownwardAPI.DefaultMode, v1.VolumeProjection{
			DownwardAPI: &v1.DownwardAPIProjection{Items: v.DownwardAPI.Items},
		})
	},
	only:  func(v *v1.Volume) v1.VolumeSource { return v1.VolumeSource{DownwardAPI: v.DownwardAPI} },
	needs: func(Config) (string, bool) { return "", true },
}

var projectedKind = kind{
	plugin: ProjectedPluginName,
	field:  "projected",
	name:   "name",
	many:   true,
	memory: true,
	source: func(v *v1.Volume) *v1.ProjectedVolumeSource { return v.Projected.DeepCopy() },
	only:   func(v *v1.Volume) v1.VolumeSource { return v1.VolumeSource{Projected: v.Projected} },
	needs:  func(Config) (string, bool) { return "", true },
}

// project returns a projected volume with one source, as a copy.
func project(mode *int32, source v1.VolumeProjection) *v1.ProjectedVolumeSource {
	p := &v1.ProjectedVolumeSource{DefaultMode: mode, Sources: []v1.VolumeProjection{source}}
	return p.DeepCopy()
}
