package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// requests are the numbers of requests that the API server has answered, by their verb and resource.
type requests map[string]int

// requestLine matches a counter of requests in the API server's metrics.
var requestLine = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// others matches requests of the API server itself, and those of the start of a program.
var others = regexp.MustCompile(`^(LIST|WATCH|DELETECOLLECTION) |leases| (namespaces|services|endpoints|endpointslices|configmaps|apiservices|clusterroles|clusterrolebindings|roles|rolebindings|priorityclasses|servicecidrs|ipaddresses)|^\S+ (/\S*)?$|subjectaccessreviews`)

// readRequests returns the requests since the start of the API server.
func (c *cluster) readRequests(ctx context.Context) (requests, error) {
	text, err := c.client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	return parseRequests(string(text))
}

func parseRequests(text string) (requests, error) {
	all := requests{}
	for line := range strings.Lines(text) {
		match := requestLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if match == nil {
			continue
		}
		labels := map[string]string{}
		for _, pair := range strings.Split(match[1], ",") {
			name, value, _ := strings.Cut(pair, "=")
			labels[name] = strings.Trim(value, `"`)
		}
		name := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			name += "/" + labels["subresource"]
		}
		count, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return nil, err
		}
		if !others.MatchString(name) {
			all[name] += int(count)
		}
	}
	return all, nil
}

// since returns the requests after earlier ones.
func (r requests) since(before requests) requests {
	after := requests{}
	for name, count := range r {
		if count > before[name] {
			after[name] = count - before[name]
		}
	}
	return after
}

// perVolume describes the requests for each of n volumes, without those that are fewer than a hundredth.
func (r requests) perVolume(n int) string {
	sum, text := 0, ""
	for _, name := range slices.Sorted(maps.Keys(r)) {
		sum += r[name]
		if share := float64(r[name]) / float64(n); share >= 0.01 {
			text += fmt.Sprintf(", %s %.2f", name, share)
		}
	}
	return fmt.Sprintf("%.2f calls for each volume%s", float64(sum)/float64(n), text)
}
