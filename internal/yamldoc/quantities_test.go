package yamldoc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
)

func TestBadQuantity(t *testing.T) {
	type inner struct {
		Limits map[string]resource.Quantity `json:"limits,omitempty"`
	}
	type object struct {
		inner   `json:",inline"`
		Labels  map[string]string  `json:"labels,omitempty"`
		Size    *resource.Quantity `json:"size,omitempty"`
		Parts   []inner            `json:"parts,omitempty"`
		Unnamed resource.Quantity
		Opaque  any `json:"opaque,omitempty"`
	}
	for text, at := range map[string]string{
		`{size: 10Gi, parts: [{limits: {cpu: 500m, memory: 1}}]}`:             "",
		`{size: 1.5, limits: {cpu: null}, labels: {size: big, limits: many}}`: "",
		`{opaque: {size: big}, unknown: {limits: {cpu: much}}}`:               "",
		`{size: "10 GB"}`:       "size",
		`{size: ""}`:            "size",
		`{size: true}`:          "size",
		`{size: [1]}`:           "size",
		`{limits: {cpu: much}}`: "limits.cpu",
		`{parts: [{limits: {cpu: 1}}, {limits: {memory: 1GB}}]}`: "parts[1].limits.memory",
		`{parts: {limits: {cpu: much}}, size: many}`:             "size",
		`[{size: many}]`: "",
	} {
		var content any
		require.NoError(t, yaml.Unmarshal([]byte(text), &content))
		err := BadQuantity(content, &object{})
		if at == "" {
			require.NoError(t, err, text)
			continue
		}
		var refused *field.Error
		require.ErrorAs(t, err, &refused, text)
		require.Equal(t, at, refused.Field, text)
		require.NotContains(t, err.Error(), "many")
	}
	require.NoError(t, BadQuantity("text", nil))
}

func TestCheckQuantities(t *testing.T) {
	for text, says := range map[string]string{
		`{spec: {volumes: [{emptyDir: {sizeLimit: "1e-99999999"}}]}}`:               "spec.volumes[0].emptyDir.sizeLimit: ",
		`{spec: {containers: [{resources: {limits: {memory: "1E-0100"}}}]}}`:        "spec.containers[0].resources.limits.memory: ",
		`{spec: {capacity: {storage: "12.5e+100"}}}`:                                "spec.capacity.storage: ",
		`{spec: {resources: {requests: {storage: 1e99999999}}}}`:                    "spec.resources.requests.storage: ",
		`{spec: {capacity: {storage: "1e18"}, limits: {memory: 1e-05, cpu: 10Ei}}}`: "",
		`{metadata: {annotations: {a: "1e-99999999"}}, data: {b: "1e-99999999"}}`:   "",
		`[1, "1e-99999999", null]`:                                                  "",
	} {
		var content any
		require.NoError(t, yaml.Unmarshal([]byte(text), &content))
		err := CheckQuantities(content)
		if says == "" {
			require.NoError(t, err, text)
			continue
		}
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, errEndless.Error())
	}
}
