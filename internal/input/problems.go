package input

// longestValid exceeds the longest name that a rule of Kubernetes permits: a label's key of 317 bytes.
const longestValid = 1 << 10

// Problems returns what a rule of Kubernetes, such as validation.IsDNS1123Subdomain, finds wrong with a name.
// The rule, which limits the length, gets no more of a long name than makes it invalid: on megabytes its pattern
// takes 0.1 seconds each time.
func Problems(rule func(string) []string, name string) []string {
	return rule(name[:min(len(name), longestValid)])
}
