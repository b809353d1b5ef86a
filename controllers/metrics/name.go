package metrics

import (
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// The names that each version of Prometheus accepts.
var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

func isName(name string) bool { return metricName.MatchString(name) }

// isLabelName reports whether name is valid and not reserved. "le" is the label of a histogram's
// buckets.
func isLabelName(name string) bool {
	return name != "le" && !strings.HasPrefix(name, "__") && labelName.MatchString(name)
}

// areLabels reports whether sorted names are valid labels, each once, besides constant labels.
func areLabels(names []string, constant prometheus.Labels) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, taken := constant[name]
		return taken || !isLabelName(name)
	}) && len(slices.Compact(slices.Clone(names))) == len(names)
}
