// Renders the Helm chart for tests where helm is not installed: Go's own templates with the functions that the chart uses.
// It is no helm: no hooks, no lookups, no dependencies, and the values are not checked against their schema.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

const release, namespace = "giga", "fleet"

func main() {
	chart := os.Args[1]
	values := read(filepath.Join(chart, "values.yaml"))
	for _, more := range os.Args[2:] {
		merge(values, read(more))
	}
	described := read(filepath.Join(chart, "Chart.yaml"))
	// Templates see these names, as in helm.
	data := map[string]interface{}{
		"Values": values,
		"Chart": map[string]interface{}{
			"Name": described["name"], "Version": described["version"], "AppVersion": described["appVersion"],
		},
		"Release": map[string]interface{}{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	check(err)
	sort.Strings(files)
	all := template.New("").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["fail"] = func(text string) (string, error) { return "", errors.New(text) }
	all.Funcs(functions)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		_, err = all.New(filepath.Base(file)).Parse(string(text))
		check(err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "_") {
			continue
		}
		var text bytes.Buffer
		check(all.ExecuteTemplate(&text, filepath.Base(file), data))
		fmt.Printf("---\n# Source: templates/%s\n%s\n", filepath.Base(file), strings.TrimSpace(text.String()))
	}
}

func read(file string) map[string]interface{} {
	text, err := os.ReadFile(file)
	check(err)
	values := map[string]interface{}{}
	check(yaml.Unmarshal(text, &values))
	return values
}

func merge(into, from map[string]interface{}) {
	for key, value := range from {
		deeper, isMap := value.(map[string]interface{})
		present, wasMap := into[key].(map[string]interface{})
		if isMap && wasMap {
			merge(present, deeper)
		} else {
			into[key] = value
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
