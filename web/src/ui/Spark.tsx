/** A small line over time, for a figure beside it. Values are spread evenly. */
export function Spark({ values, label }: { values: readonly number[]; label: string }) {
  if (values.length < 2) return null;
  const most = Math.max(1, ...values);
  const x = (index: number) => ((index / (values.length - 1)) * 88).toFixed(1);
  const y = (value: number) => (26 - (value / most) * 24).toFixed(1);
  return (
    <svg className="spark" viewBox="0 0 88 28" preserveAspectRatio="none" role="img" aria-label={label}>
      <path className="base" d="M0 27.5H88" />
      <path d={`M${values.map((value, index) => `${x(index)} ${y(value)}`).join("L")}`} />
    </svg>
  );
}
