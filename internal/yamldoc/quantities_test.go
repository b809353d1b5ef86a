package yamldoc

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"
)

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
