package volumekit_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/metricstest"
)

// TestDocsNameRooms: the list of packages names each one that programs may import.
func TestDocsNameRooms(t *testing.T) {
	list := readFile(t, "docs/architecture.md")
	rooms := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(p); {
		case err != nil || p == ".":
			return err
		case entry.IsDir():
			if strings.HasPrefix(name, ".") || name == "internal" || name == "testdata" || name == "examples" || name == "bench" || name == "agents" {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			rooms[filepath.ToSlash(filepath.Dir(p))] = true
		}
		return nil
	}))
	delete(rooms, ".")
	require.Greater(t, len(rooms), 20)
	for room := range rooms {
		require.Contains(t, list, "`"+room+"`")
	}
}

// TestReadmeIsShort: a newcomer reads the README in a few minutes.
func TestReadmeIsShort(t *testing.T) { require.LessOrEqual(t, len(readFile(t, "README.md")), 6<<10) }

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// TestDocsPrograms: the Go texts of the documents are in examples, which are compiled and run there. A file of package main
// alone would not link.
func TestDocsPrograms(t *testing.T) {
	for name, files := range map[string][]string{
		"README.md":        {"examples/onevolume/main.go"},
		"docs/embed.md":    {"examples/podvolumes/main.go"},
		"docs/cluster.md":  {"controllers/examples/agent/agent.go", "controllers/ctrlruntime/example_test.go"},
		"docs/cookbook.md": slices.Repeat([]string{"docs/cookbook_test.go"}, 9),
	} {
		blocks := strings.Split(readFile(t, name), "```go\n")[1:]
		require.Len(t, blocks, len(files), name)
		for i, block := range blocks {
			text, _, ok := strings.Cut(block, "```")
			require.True(t, ok)
			require.NotContains(t, text, "package main\n")
			require.Contains(t, readFile(t, files[i]), text)
		}
	}
}

// TestDocsLinks: each link between documents leads to a file, and to a heading in it.
func TestDocsLinks(t *testing.T) {
	link, notInAnchor := regexp.MustCompile(`\]\(([^)]*)\)`), regexp.MustCompile(`[^\w\- ]`)
	anchors := func(text string) (anchors []string) {
		for line := range strings.Lines(text) {
			if heading := strings.TrimLeft(line, "#"); heading != line {
				heading = notInAnchor.ReplaceAllString(strings.ToLower(strings.TrimSpace(heading)), "")
				anchors = append(anchors, strings.ReplaceAll(heading, " ", "-"))
			}
		}
		return anchors
	}
	links := 0
	walk(t, func(name string) {
		if path.Ext(name) != ".md" {
			return
		}
		for _, found := range link.FindAllStringSubmatch(readFile(t, name), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(found[1], "#")
			if file == "" {
				file = name
			} else {
				file = path.Join(path.Dir(name), file)
			}
			_, err := os.Stat(file)
			require.NoError(t, err, "%s: %s", name, found[0])
			if anchor != "" {
				require.Contains(t, anchors(readFile(t, file)), anchor, "%s: %s", name, found[0])
			}
		}
	})
	require.Greater(t, links, 20)
}

// TestGitHub: each module has its updates, and each suite of the night a job.
func TestGitHub(t *testing.T) {
	updates := regexp.MustCompile(`ecosystem: gomod, directory: /(\S*),`).FindAllStringSubmatch(readFile(t, ".github/dependabot.yml"), -1)
	var updated, modules []string
	for _, found := range updates {
		updated = append(updated, path.Join(found[1], "go.mod"))
	}
	walk(t, func(name string) {
		if path.Base(name) == "go.mod" {
			modules = append(modules, name)
		}
	})
	require.ElementsMatch(t, modules, updated)
	list := func(file, pattern string) []string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(readFile(t, file))
		require.NotNil(t, found, file)
		return strings.Fields(strings.ReplaceAll(found[1], ",", " "))
	}
	require.ElementsMatch(t, list(".ci/suites", `(?m)^readonly nightly=\((.*)\)$`), list(".github/workflows/nightly.yml", `suite: \[(.*)\]`))
}

// TestMetrics: the document, the dashboard and the alerts have each metric of the code, and no other one.
func TestMetrics(t *testing.T) {
	constant := regexp.MustCompile(`(?m)^(?:const |\t)[A-Z]\w* += "([a-z]+(?:_[a-z]+){2,})"`)
	inCode := map[string]bool{}
	walk(t, func(name string) {
		if base := path.Base(name); base == "name.go" || base == "metrics.go" || base == "collector.go" {
			for _, found := range constant.FindAllStringSubmatch(readFile(t, name), -1) {
				inCode[found[1]] = true
			}
		}
	})
	require.Greater(t, len(inCode), 20)
	document := readFile(t, "docs/metrics.md")
	metrics := metricstest.Parse(document)
	require.ElementsMatch(t, slices.Collect(maps.Keys(inCode)), slices.Collect(maps.Keys(metrics)))
	require.Equal(t, len(metrics), strings.Count(document, "\n| `"), "each metric has one row")

	metric := regexp.MustCompile(`\b[a-z]+(?:_[a-z]+){2,}\b`)
	// used returns the metrics of an expression of Prometheus. The test fails on a label that none of them has.
	used := func(expression string) (names []string) {
		var labels []string
		for _, name := range metric.FindAllString(ofLabels.ReplaceAllString(expression, ""), -1) {
			short := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			if metrics[short].Type == "histogram" {
				require.NotEqual(t, short, name, expression)
				name = short
			}
			require.True(t, inCode[name], "%s of %s", name, expression)
			names, labels = append(names, name), append(labels, metrics[name].Labels...)
		}
		for _, label := range labelsOf(expression) {
			require.Contains(t, append(labels, "le"), label, expression)
		}
		return names
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, "agents/dashboards/volumekit.json")), &dashboard))
	shown := map[string]bool{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			for _, name := range used(target.Expr) {
				shown[name] = true
			}
		}
	}
	require.Equal(t, inCode, shown)
	alerts := regexp.MustCompile(`(?m)^  - alert: (\w+)\n    expr: >-\n      (.*)\n    for: (\w+)$`).FindAllStringSubmatch(readFile(t, "agents/dashboards/alerts.yaml"), -1)
	alertsOf := map[string][]string{}
	var rows []string
	for _, alert := range alerts {
		rows = append(rows, alert[1]+" after "+alert[3])
		for _, name := range used(alert[2]) {
			if !slices.Contains(alertsOf[name], alert[1]) {
				alertsOf[name] = append(alertsOf[name], alert[1])
			}
		}
	}
	for name, metric := range metrics {
		require.ElementsMatch(t, alertsOf[name], metric.Alerts, name)
	}
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]\w+) \| (\w+) \|`).FindAllStringSubmatch(document, -1) {
		documented = append(documented, row[1]+" after "+row[2])
	}
	require.ElementsMatch(t, rows, documented)
}

// ofLabels matches the parts of an expression of Prometheus that have labels or times.
var ofLabels = regexp.MustCompile(`(by|on|without|ignoring|group_left|group_right) ?\([^)]*\)|\{[^}]*\}|\[[^]]*\]`)

// labelsOf returns the labels that an expression of Prometheus selects by or groups by.
func labelsOf(expression string) (labels []string) {
	for _, part := range ofLabels.FindAllString(expression, -1) {
		switch part[0] {
		case '[': // a time
		case '{':
			for _, matcher := range regexp.MustCompile(`(\w+) ?(=|!)`).FindAllStringSubmatch(part, -1) {
				labels = append(labels, matcher[1])
			}
		default:
			_, list, _ := strings.Cut(part, "(")
			labels = append(labels, strings.FieldsFunc(list, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) })...)
		}
	}
	return labels
}

func TestLabelsOf(t *testing.T) {
	for expression, want := range map[string][]string{
		"rate(a_b_total[5m])": nil, `sum by (le, x) (rate(a{y="1", z!~"by (q)"}[5m])) / on(v) b`: {"le", "x", "y", "z", "v"},
	} {
		require.Equal(t, want, labelsOf(expression), expression)
	}
}

// TestOtherPackages: the doc of package volume names the packages to use instead of it, and they exist.
func TestOtherPackages(t *testing.T) {
	doc := readFile(t, "volume/doc.go")
	_, section, ok := strings.Cut(doc, "// # When not to use it\n")
	require.True(t, ok)
	for _, other := range []string{"mount", "csi/driver", "controllers/provision"} {
		require.Regexp(t, `\b`+other+`\b`, section)
		require.FileExists(t, other+"/doc.go")
	}
}
