{{/* The name of everything that this release creates. */}}
{{- define "giga.name" -}}
{{- if contains "giga" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-giga" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "giga.labels" -}}
app.kubernetes.io/name: giga
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "giga.tag" -}}
{{- default .Chart.AppVersion .Values.image.tag -}}
{{- end }}

{{/* One address in front of every coordinator that is ready; each forwards to the leader. */}}
{{- define "giga.api" -}}
https://{{ include "giga.name" . }}.{{ .Release.Namespace }}.svc:7878
{{- end }}

{{/* What a factory of a pool is started with. */}}
{{- define "giga.poolArgs" -}}
["factory", "run", "--pool", {{ .name | quote }}]
{{- end }}

{{/* Where KEDA reads how many factories of a pool are wanted in all, and the field of the answer. */}}
{{- define "giga.scaleUrl" -}}
{{ include "giga.api" .root }}/api/fleet/scale?pool={{ .name }}
{{- end }}
{{- define "giga.scaleField" -}}
wanted
{{- end }}

{{/* Nothing of ours runs as root, gains privileges or writes to its image. */}}
{{- define "giga.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}
{{- define "giga.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
